import { beforeEach, describe, expect, test, vi } from "vitest";
import { ChunkRun } from "./chunk-run.ts";
import { nameScopes, SlotPermits } from "./slot-permits.ts";

const LEASE = { step: 0, chunk: 0, fence: 1, start: 0, end: 9, locator: null };
const REST = { histories: [], overrides: [], careful: false, final: false };

function makeRun(batch: string, lane: string): ChunkRun {
  const lease = { ...LEASE, ...REST, batch, outcomes: new Uint8Array(3) };
  const run = new ChunkRun(lease, { leaseUntil: 1_000, now: 0 });
  const items = { count: 9, at: (position: number) => position };
  run.receive(lane, items, nameScopes(batch, lane, "import"));
  return run;
}

describe("permits for handlers at once", () => {
  const one = makeRun("b1", "l1");
  const two = makeRun("b2", "l2");
  let permits = new SlotPermits();
  const onRoom = vi.fn();

  beforeEach(() => {
    permits = new SlotPermits();
    onRoom.mockReset();
    for (const run of [one, two]) run.inFlight = 0;
    permits.join({ listRuns: () => [one, two], onRoom });
  });

  test("are needed where there is a cap, and nowhere else", () => {
    expect(permits.areNeeded).toBe(false);
    expect(permits.mayStart(one, 0)).toBe(true);
    permits.grant([{ scope: "lane/l1", slots: 0 }], "import", 100);
    expect(permits.areNeeded).toBe(true);
    expect(permits.mayStart(one, 0)).toBe(false);
    expect(permits.mayStart(two, 0)).toBe(true);
    permits.grant([], "import", 100);
    expect(permits.mayStart(one, 0)).toBe(true);
  });

  test("of the narrowest and of the widest scope both count", () => {
    permits.grant(
      [
        { scope: "batch/b1", slots: 3 },
        { scope: "pipeline/import", slots: 4 },
      ],
      "import",
      100,
    );
    permits.start(two);
    permits.start(two);
    expect(permits.countRoom(one, 0)).toBe(2);
    permits.start(one);
    permits.start(one);
    expect(permits.mayStart(one, 0)).toBe(false);
    expect(permits.mayStart(two, 0)).toBe(false);
    permits.end(two);
    expect(permits.countRoom(one, 0)).toBe(1);
    expect(onRoom).toHaveBeenCalledTimes(2);
  });

  test("run out with the leases beside which they were granted", () => {
    permits.grant([{ scope: "batch/b1", slots: 3 }], "import", 100);
    expect(permits.mayStart(one, 99)).toBe(true);
    expect(permits.mayStart(one, 100)).toBe(false);
    permits.grant([{ scope: "batch/b1", slots: 3 }], "import", null);
    expect(permits.mayStart(one, 100)).toBe(false);
    permits.renew([{ scope: "batch/b1", slots: 1 }], 200);
    expect(permits.countRoom(one, 100)).toBe(1);
  });

  test("count what ran already when a cap was set", () => {
    one.inFlight = 2;
    permits.renew([{ scope: "lane/l1", slots: 3 }], 100);
    expect(permits.countRoom(one, 0)).toBe(1);
    permits.end(one);
    expect(permits.countRoom(one, 0)).toBe(2);
  });

  test("that are not needed are given up, and no others", () => {
    permits.grant(
      [
        { scope: "batch/b1", slots: 16 },
        { scope: "pipeline/import", slots: 16 },
      ],
      "import",
      100,
    );
    one.inFlight = 1;
    expect(permits.listKeeps("import", [one], 16)).toEqual([
      { scope: "batch/b1", slots: 10 },
      { scope: "pipeline/import", slots: 10 },
    ]);
    expect(permits.listKeeps("import", [one, two], 16)).toEqual([{ scope: "batch/b1", slots: 10 }]);
    expect(permits.listKeeps("export", [], 16)).toEqual([]);
    one.lose();
    expect(permits.listKeeps("import", [one], 16).map(({ slots }) => slots)).toEqual([0, 0]);
  });
});
