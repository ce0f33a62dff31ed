import { beforeEach, describe, expect, test, vi } from "vitest";
import type { Permit, Permits } from "../../ports/store/worker-store.ts";
import { ManualClock } from "../../../test/support/manual-clock.ts";
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
  let clock = new ManualClock({ monotonicMs: 0 });
  let permits = new SlotPermits(clock);
  let seq = 0;
  const onRoom = vi.fn();

  beforeEach(() => {
    clock = new ManualClock({ monotonicMs: 0 });
    permits = new SlotPermits(clock);
    seq = 0;
    onRoom.mockReset();
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

  const answer = (nth: number, given: readonly Permit[], forMs = 100): Permits => ({
    seq: nth,
    held: given.map((one) => ({ ...one, pipeline: "import", forMs })),
  });

  /** A request that is answered before another one is sent. */
  const grant = (given: readonly Permit[], forMs?: number): void => {
    const question = permits.ask("import");
    permits.grant(question, answer(++seq, given, forMs));
    permits.close(question);
  };

  const BOTH = [
    { scope: "batch/b1", slots: 16 },
    { scope: "pipeline/import", slots: 16 },
  ];

  test("are needed where there is a cap, and nowhere else", () => {
    expect(permits.areNeeded).toBe(false);
    expect(permits.mayStart(one, 0)).toBe(true);
    grant([{ scope: "lane/l1", slots: 0 }]);
    expect(permits.areNeeded).toBe(true);
    expect(permits.mayStart(one, 0)).toBe(false);
    expect(permits.mayStart(two, 0)).toBe(true);
    grant([]);
    expect(permits.mayStart(one, 0)).toBe(true);
  });

  test("a run with room below one cap and none below another is stuck, if it was so before", () => {
    const half = [
      { scope: "batch/b1", slots: 0 },
      { scope: "lane/l1", slots: 3 },
    ];
    grant(half);
    expect([...permits.findDeadlocked()]).toEqual([]);
    expect([...permits.findDeadlocked()]).toEqual([one]);
    grant([{ scope: "batch/b1", slots: 1 }, half[1]!]);
    expect([...permits.findDeadlocked()]).toEqual([]);
    grant(half);
    expect([...permits.findDeadlocked()]).toEqual([]);
    one.lose();
    expect([...permits.findDeadlocked()]).toEqual([]);
  });

  test("a run that waits below full caps, or has running items, is not stuck", () => {
    grant([{ scope: "batch/b1", slots: 0 }]);
    permits.findDeadlocked();
    expect([...permits.findDeadlocked()]).toEqual([]);
    grant([
      { scope: "batch/b2", slots: 1 },
      { scope: "lane/l2", slots: 3 },
    ]);
    permits.start(two);
    two.inFlight++;
    permits.findDeadlocked();
    expect([...permits.findDeadlocked()]).toEqual([]);
  });

  test("of the narrowest and the widest scope both count", () => {
    grant([
      { scope: "batch/b1", slots: 3 },
      { scope: "pipeline/import", slots: 4 },
    ]);
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

  test("expire when the store says, counted from the request", () => {
    grant([{ scope: "batch/b1", slots: 3 }], 100);
    expect(permits.mayStart(one, 99)).toBe(true);
    expect(permits.mayStart(one, 100)).toBe(false);
    const question = permits.ask("import");
    clock.advance(50);
    permits.grant(question, answer(++seq, [{ scope: "batch/b1", slots: 3 }], 200));
    expect(permits.mayStart(one, 199)).toBe(true);
    expect(permits.mayStart(one, 200)).toBe(false);
  });

  test("for more than could ever run are not counted, until they expire or are released", () => {
    grant(BOTH);
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
    grant([{ scope: "batch/b1", slots: 16 }]);
    expect(permits.countRoom(one, 0)).toBe(Number.POSITIVE_INFINITY);
    grant([{ scope: "lane/l1", slots: 16 }]);
    expect(permits.countRoom(one, 0)).toBe(16);
  });

  test("count items that were already running when a cap was set", () => {
    one.inFlight = 2;
    grant([{ scope: "lane/l1", slots: 3 }]);
    expect(permits.countRoom(one, 0)).toBe(1);
    permits.end(one);
    expect(permits.countRoom(one, 0)).toBe(2);
  });

  test("that are not needed are released with the request, and no others", () => {
    grant(BOTH);
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
    grant(BOTH);
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
    grant(BOTH);
    expect(permits.ask("import").keeps.map(({ slots }) => slots)).toEqual([7, 7]);
    other.lose();
    expect(permits.ask("import").keeps).toEqual([]);
  });

  test("are needed for chunks that are being read, whose lane is unknown", () => {
    const lease = { ...LEASE, ...REST, batch: "b3", outcomes: new Uint8Array(3) };
    runs = [new ChunkRun(lease, { leaseUntil: 1_000, now: 0 })];
    grant([{ scope: "lane/l1", slots: 5 }]);
    expect(permits.ask("import").keeps).toEqual([]);
  });

  describe("from concurrent answers", () => {
    const B1 = (slots: number): Permit[] => [{ scope: "batch/b1", slots }];
    const roomOfOne = (): number => permits.countRoom(one, 0);

    test("are those of the transaction that was committed last, whatever arrives last", () => {
      const [renewal, lease] = [permits.ask(null), permits.ask("import")];
      permits.grant(lease, answer(3, [...B1(3), { scope: "batch/b2", slots: 2 }]));
      permits.grant(renewal, answer(2, B1(5)));
      expect([one, two].map((run) => permits.countRoom(run, 0))).toEqual([3, 2]);
      const [early, late] = [permits.ask(null), permits.ask(null)];
      permits.grant(early, answer(4, B1(4)));
      permits.grant(late, answer(5, []));
      expect(roomOfOne()).toBe(Number.POSITIVE_INFINITY);
    });

    test("do not come back when a later answer has none", () => {
      grant(B1(5));
      const [renewal, lease] = [permits.ask(null), permits.ask("import")];
      permits.grant(lease, answer(3, []));
      permits.grant(renewal, answer(2, B1(5)));
      expect(permits.areNeeded).toBe(false);
    });

    test("exclude what a request releases, until its own answer", () => {
      runs = [];
      grant(B1(5));
      const release = permits.ask("import");
      expect(release.keeps).toEqual(B1(0));
      runs = [one];
      permits.grant(permits.ask(null), answer(2, B1(5)));
      expect(roomOfOne()).toBe(0);
      permits.grant(release, answer(3, B1(2)));
      expect(roomOfOne()).toBe(2);
    });

    test("include what a request released if it was committed before them", () => {
      runs = [];
      grant(B1(5));
      const release = permits.ask("import");
      runs = [one];
      permits.grant(permits.ask(null), answer(3, B1(4)));
      permits.grant(release, answer(2, B1(0)));
      expect(roomOfOne()).toBe(4);
    });

    test("exclude what a failed request may have released, until a request after it is answered", () => {
      runs = [];
      grant(B1(5));
      const [release, meanwhile] = [permits.ask("import"), permits.ask(null)];
      permits.close(release);
      runs = [one];
      permits.grant(meanwhile, answer(2, B1(5)));
      expect(roomOfOne()).toBe(0);
      permits.grant(permits.ask(null), answer(2, B1(5)));
      expect(roomOfOne()).toBe(5);
    });

    test("count in the order of arrival for a worker that the store does not know", () => {
      const [first, second] = [permits.ask(null), permits.ask(null)];
      permits.grant(second, answer(0, B1(5)));
      permits.grant(first, answer(0, B1(3)));
      expect(roomOfOne()).toBe(3);
      grant(B1(4));
      permits.grant(permits.ask(null), answer(0, B1(2)));
      expect(roomOfOne()).toBe(2);
    });
  });
});
