import { beforeEach, describe, expect, test, vi } from "vitest";
import type { Permit } from "../../ports/store/worker-store.ts";
import { ChunkRun } from "../chunk/chunk-run.ts";
import { nameScopes, SlotPermits } from "./slot-permits.ts";

const LEASE = { step: 0, chunk: 0, fence: 1, start: 0, end: 9, locator: null };
const REST = { histories: [], overrides: [], guarded: false, final: false };

function makeRun(batch: string, lane: string): ChunkRun {
  const lease = { ...LEASE, ...REST, batch, outcomes: new Uint8Array(3) };
  const run = new ChunkRun(lease, { leaseUntil: 1_000, now: 0 });
  const items = { count: 9, at: (position: number) => position };
  run.receive(lane, items, { scopes: nameScopes(batch, lane, "import") });
  return run;
}

describe("permits for concurrent handlers", () => {
  let one = makeRun("b1", "l1");
  let two = makeRun("b2", "l2");
  let runs = [one, two];
  let permits = new SlotPermits(async () => {});
  const onRoom = vi.fn();
  const onDoubt = vi.fn<() => Promise<void>>();

  beforeEach(() => {
    permits = new SlotPermits(onDoubt);
    onRoom.mockReset();
    onDoubt.mockReset().mockResolvedValue();
    one = makeRun("b1", "l1");
    two = makeRun("b2", "l2");
    runs = [one, two];
    permits.join({
      pipeline: "import",
      countSlots: () => 16,
      slotsMax: 16,
      listRuns: () => runs,
      onRoom,
    });
  });

  const grant = (given: readonly Permit[], until: number | null): void => {
    const question = permits.ask("import");
    permits.grant(question, given, until);
    permits.close(question);
  };

  const renew = (given: readonly Permit[], until: number): void => {
    const question = permits.askAll();
    permits.grant(question, given, until);
    permits.close(question);
  };

  const BOTH = [
    { scope: "batch/b1", slots: 16 },
    { scope: "pipeline/import", slots: 16 },
  ];

  test("are needed where there is a cap, and nowhere else", () => {
    expect(permits.areNeeded).toBe(false);
    expect(permits.mayStart(one, 0)).toBe(true);
    grant([{ scope: "lane/l1", slots: 0 }], 100);
    expect(permits.areNeeded).toBe(true);
    expect(permits.mayStart(one, 0)).toBe(false);
    expect(permits.mayStart(two, 0)).toBe(true);
    grant([], 100);
    expect(permits.mayStart(one, 0)).toBe(true);
  });

  test("a run with room below one cap and none below another is stuck, if it was so before", () => {
    const half = [
      { scope: "batch/b1", slots: 0 },
      { scope: "lane/l1", slots: 3 },
    ];
    renew(half, 100);
    expect([...permits.findDeadlocked()]).toEqual([]);
    expect([...permits.findDeadlocked()]).toEqual([one]);
    renew([{ scope: "batch/b1", slots: 1 }, half[1]!], 100);
    expect([...permits.findDeadlocked()]).toEqual([]);
    renew(half, 100);
    expect([...permits.findDeadlocked()]).toEqual([]);
    one.lose();
    expect([...permits.findDeadlocked()]).toEqual([]);
  });

  test("a run that waits below full caps, or has running items, is not stuck", () => {
    renew([{ scope: "batch/b1", slots: 0 }], 100);
    permits.findDeadlocked();
    expect([...permits.findDeadlocked()]).toEqual([]);
    renew(
      [
        { scope: "batch/b2", slots: 1 },
        { scope: "lane/l2", slots: 3 },
      ],
      100,
    );
    permits.start(two);
    two.inFlight++;
    permits.findDeadlocked();
    expect([...permits.findDeadlocked()]).toEqual([]);
  });

  test("of the narrowest and the widest scope both count", () => {
    grant(
      [
        { scope: "batch/b1", slots: 3 },
        { scope: "pipeline/import", slots: 4 },
      ],
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

  test("expire with the leases with which they were granted", () => {
    grant([{ scope: "batch/b1", slots: 3 }], 100);
    expect(permits.mayStart(one, 99)).toBe(true);
    expect(permits.mayStart(one, 100)).toBe(false);
    grant([{ scope: "batch/b1", slots: 3 }], null);
    expect(permits.mayStart(one, 100)).toBe(false);
    renew([{ scope: "batch/b1", slots: 1 }], 200);
    expect(permits.countRoom(one, 100)).toBe(1);
  });

  test("for more than could ever run are not counted, until they expire or are released", () => {
    grant(BOTH, 100);
    for (let n = 0; n < 16; n++) permits.start(one);
    expect(permits.countRoom(one, 0)).toBe(Number.POSITIVE_INFINITY);
    expect(permits.countRoom(one, 100)).toBe(0);
    one.inFlight = 3;
    permits.join({
      pipeline: "import",
      countSlots: () => 0,
      slotsMax: 1,
      listRuns: () => [],
      onRoom,
    });
    expect(permits.countRoom(one, 0)).toBe(13);
    expect(permits.countRoomOfAny([two, one], 0)).toBe(13);
    expect(permits.countRoomOfAny([], 0)).toBe(0);
  });

  test("of a lane are shared with other pipelines", () => {
    permits.join({
      pipeline: "export",
      countSlots: () => 1,
      slotsMax: 1,
      listRuns: () => [],
      onRoom,
    });
    grant([{ scope: "batch/b1", slots: 16 }], 100);
    expect(permits.countRoom(one, 0)).toBe(Number.POSITIVE_INFINITY);
    grant([{ scope: "lane/l1", slots: 16 }], 100);
    expect(permits.countRoom(one, 0)).toBe(16);
  });

  test("count items that were already running when a cap was set", () => {
    one.inFlight = 2;
    renew([{ scope: "lane/l1", slots: 3 }], 100);
    expect(permits.countRoom(one, 0)).toBe(1);
    permits.end(one);
    expect(permits.countRoom(one, 0)).toBe(2);
  });

  test("that are not needed are released with the request, and no others", () => {
    grant(BOTH, 100);
    one.inFlight = 1;
    const question = permits.ask("import");
    expect(question.keeps).toEqual([{ scope: "batch/b1", slots: 10 }]);
    expect(permits.countRoom(one, 0)).toBe(9);
    permits.close(question);
    expect(permits.ask("export").keeps).toEqual([]);
    two.lose();
    expect(permits.ask("import").keeps).toEqual([{ scope: "pipeline/import", slots: 10 }]);
  });

  test("are needed by all steps of the pipeline together", () => {
    const other = makeRun("b1", "l1");
    permits.join({
      pipeline: "import",
      countSlots: () => 4,
      slotsMax: 4,
      listRuns: () => [other],
      onRoom,
    });
    grant(BOTH, 100);
    expect(permits.ask("import").keeps).toEqual([{ scope: "batch/b1", slots: 13 }]);
  });

  test("are needed for running items, also when the limit was lowered or the lease is lost", () => {
    runs = [];
    const other = makeRun("b1", "l1");
    other.inFlight = 7;
    permits.join({
      pipeline: "import",
      countSlots: () => 3,
      slotsMax: 3,
      listRuns: () => [other],
      onRoom,
    });
    grant(BOTH, 100);
    expect(permits.ask("import").keeps.map(({ slots }) => slots)).toEqual([7, 7]);
    other.lose();
    expect(permits.ask("import").keeps).toEqual([]);
  });

  test("are needed for chunks that are being read, whose lane is unknown", () => {
    const lease = { ...LEASE, ...REST, batch: "b3", outcomes: new Uint8Array(3) };
    runs = [new ChunkRun(lease, { leaseUntil: 1_000, now: 0 })];
    grant([{ scope: "lane/l1", slots: 5 }], 100);
    expect(permits.ask("import").keeps).toEqual([]);
  });

  test("from two concurrent answers must agree", () => {
    grant([{ scope: "batch/b1", slots: 5 }], 100);
    const renewal = permits.askAll();
    const lease = permits.ask("import");
    permits.grant(
      lease,
      [
        { scope: "batch/b1", slots: 3 },
        { scope: "batch/b2", slots: 2 },
      ],
      100,
    );
    permits.close(lease);
    // It was committed before the other one, and its answer arrives after it.
    permits.grant(renewal, [{ scope: "batch/b1", slots: 5 }], 100);
    permits.close(renewal);
    expect([one, two].map((run) => permits.countRoom(run, 0))).toEqual([3, 2]);
    renew([{ scope: "batch/b1", slots: 4 }], 100);
    expect(permits.countRoom(one, 0)).toBe(4);
    expect(permits.countRoom(two, 0)).toBe(Number.POSITIVE_INFINITY);
  });

  describe("on which two concurrent answers disagree", () => {
    /** One step needs nothing while the other leases a chunk. */
    const disagree = (): void => {
      runs = [];
      grant([{ scope: "batch/b1", slots: 2 }], 100);
      const dry = permits.ask("import");
      const lease = permits.ask("import");
      expect(dry.keeps).toEqual([{ scope: "batch/b1", slots: 0 }]);
      permits.grant(dry, [{ scope: "batch/b1", slots: 0 }], null);
      permits.close(dry);
      permits.grant(lease, [{ scope: "batch/b1", slots: 2 }], 100);
      runs = [one];
      expect(permits.countRoom(one, 0)).toBe(0);
      expect(onDoubt).not.toHaveBeenCalled();
      permits.close(lease);
    };

    test("are requested once more after both answers", () => {
      disagree();
      expect(onDoubt).toHaveBeenCalledTimes(1);
      renew([{ scope: "batch/b1", slots: 2 }], 100);
      expect(permits.countRoom(one, 0)).toBe(2);
      expect(onDoubt).toHaveBeenCalledTimes(1);
    });

    test("are requested alone: a lease request waits for the answer", async () => {
      const answered = Promise.withResolvers<void>();
      onDoubt.mockReturnValue(answered.promise);
      disagree();
      const order: string[] = [];
      const lease = permits.duringRequest("import", async ({ isShared }) => {
        order.push(`lease ${isShared}`);
      });
      await permits.duringRequest(null, async (question) => {
        await Promise.resolve();
        order.push(`renewal ${question.isShared}`);
        permits.grant(question, [{ scope: "batch/b1", slots: 2 }], 100);
      });
      expect(permits.countRoom(one, 0)).toBe(2);
      answered.resolve();
      await lease;
      expect(order).toEqual(["renewal false", "lease false"]);
      expect(onDoubt).toHaveBeenCalledTimes(1);
    });

    test("block other requests only until the answer or a failure", async () => {
      onDoubt.mockRejectedValue(new Error("the store is away"));
      disagree();
      await permits.duringRequest("import", async () => {});
    });

    test("are not requested where none are needed", () => {
      one.lose();
      disagree();
      expect(onDoubt).not.toHaveBeenCalled();
    });
  });

  test("that came with a batch's only chunk survive an older answer", () => {
    const renewal = permits.askAll();
    permits.add([{ scope: "batch/b1", slots: 2 }], "import", 100);
    permits.grant(renewal, [], 100);
    expect(permits.countRoom(one, 0)).toBe(2);
  });
});
