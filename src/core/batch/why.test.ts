import { describe, expect, test } from "vitest";
import { type BatchFacts, type ChunkFacts, explainBatch, explainChunk, WHY_CODES } from "./why.ts";

const RUNNING: BatchFacts = {
  state: "running",
  pipeline: "import",
  version: "2",
  lane: "case-7",
  active: true,
  laneHolder: null,
  ahead: 0,
  parked: null,
  pause: null,
  cancelMode: null,
  hasWorker: true,
  sealed: true,
  pending: 10,
  leased: 0,
  inCanary: false,
  nextDueInMs: 0,
  nextRest: null,
  cap: null,
};

const PAUSE = { scope: "lane", name: "case-7", by: "eva", why: "audit" } as const;

const batch = (changes: Partial<BatchFacts>): BatchFacts => ({ ...RUNNING, ...changes });

describe("why a batch waits", () => {
  const waiting = { state: "ready", active: false, laneHolder: "b-1", ahead: 2 } as const;

  test.each<[string, Partial<BatchFacts>, string, RegExp]>([
    ["it has ended", { state: "cancelled" }, "ended", /has ended: cancelled/],
    [
      "it is being cancelled",
      { cancelMode: "now", leased: 2 },
      "cancelling",
      /\(now\): 2 chunks are/,
    ],
    [
      "its last chunk is still leased",
      { cancelMode: "drain", leased: 1 },
      "cancelling",
      /1 chunk is/,
    ],
    ["it is parked", { parked: "its lane is paused", active: false }, "parked", /sluice resume/],
    [
      "its lane is paused",
      { pause: PAUSE },
      "paused",
      /its lane case-7 was paused by eva \(audit\)/,
    ],
    [
      "it is paused itself",
      { pause: { ...PAUSE, scope: "batch", why: null } },
      "paused",
      /^it was paused by eva; /,
    ],
    ["others come first", waiting, "lane", /lane case-7: 2 batches come first; batch b-1 has/],
    ["one comes first", { ...waiting, ahead: 1 }, "lane", /1 batch comes first/],
    [
      "its lane is changing hands",
      { ...waiting, laneHolder: null, ahead: 0 },
      "lane",
      /0 batches come first$/,
    ],
    [
      "no worker has its pipeline",
      { hasWorker: false },
      "no_worker",
      /import in version 2; start one/,
    ],
    ["it is new", { state: "submitted" }, "unsliced", /about to be sliced/],
    ["it is being sliced", { state: "slicing" }, "slicing", /being planned/],
    ["a worker holds a chunk", { leased: 1 }, "working", /1 chunk leased/],
    ["workers hold chunks", { leased: 3 }, "working", /3 chunks leased/],
    ["its producer has not sealed it", { pending: 0, sealed: false }, "unsealed", /may add more/],
    ["its items wait for a retry", { nextDueInMs: 1_500 }, "back_off", /next attempt in 2 s/],
    ["nothing keeps it", {}, "due", /next free worker/],
    ["nothing is known to wait", { nextDueInMs: null }, "due", /next free worker/],
  ])("%s", (_what, changes, code, message) => {
    const why = explainBatch(batch(changes));
    expect(why.code).toBe(code);
    expect(why.message).toMatch(message);
    expect(WHY_CODES).toContain(why.code);
  });

  test("there is one answer, and the state nearest to the end wins", () => {
    const all: Partial<BatchFacts> = {
      ...waiting,
      parked: "stuck",
      pause: PAUSE,
      cancelMode: "now",
      hasWorker: false,
    };
    const peel: Partial<BatchFacts>[] = [
      { ...all, state: "failed" },
      all,
      { ...all, cancelMode: null },
      { ...all, cancelMode: null, parked: null },
      { ...all, cancelMode: null, parked: null, pause: null },
      { hasWorker: false, leased: 2 },
      { leased: 2, nextDueInMs: 5_000 },
    ];
    expect(peel.map((facts) => explainBatch(batch(facts)).code)).toEqual([
      "ended",
      "cancelling",
      "parked",
      "paused",
      "lane",
      "no_worker",
      "working",
    ]);
  });

  test.each([
    [1, "1 ms"],
    [999, "999 ms"],
    [1_000, "1 s"],
    [119_001, "120 s"],
    [120_000, "2 min"],
    [3_600_001, "61 min"],
  ])("a wait of %i ms is said as %s", (nextDueInMs, text) => {
    expect(explainBatch(batch({ nextDueInMs })).message).toContain(` in ${text}`);
  });
});

describe("why a chunk waits", () => {
  const CHUNK: ChunkFacts = {
    chunk: 4,
    state: "waiting",
    worker: null,
    dueInMs: 0,
    rest: null,
    behindCanary: false,
  };

  test.each<[string, Partial<ChunkFacts>, Partial<BatchFacts>, string, RegExp]>([
    ["it is settled", { state: "settled" }, { state: "failed" }, "settled", /chunk 4 is settled/],
    ["it was cancelled", { state: "cancelled" }, { state: "cancelled" }, "ended", /cancelled/],
    ["its batch ended without it", { state: "planned" }, { state: "expired" }, "ended", /expired/],
    [
      "a worker has it",
      { state: "leased", worker: "w9" },
      {},
      "working",
      /worker w9 is running chunk 4/,
    ],
    ["its worker is unknown", { state: "leased" }, {}, "working", /worker unknown/],
    [
      "a worker has it though it is cancelled",
      { state: "leased" },
      { cancelMode: "drain" },
      "working",
      /chunk 4/,
    ],
    ["its batch is being cancelled", {}, { cancelMode: "drain", leased: 1 }, "cancelling", /drain/],
    ["its batch is paused", { dueInMs: 5_000 }, { pause: PAUSE }, "paused", /eva/],
    ["it is not its batch's turn", {}, { active: false, state: "ready" }, "lane", /turn/],
    [
      "the canary has not passed",
      { state: "planned", behindCanary: true },
      { inCanary: true },
      "canary",
      /must pass/,
    ],
    ["its items wait for a retry", { dueInMs: 400 }, {}, "back_off", /400 ms/],
    ["no worker has its pipeline", {}, { hasWorker: false }, "no_worker", /start one/],
    ["nothing keeps it", { state: "planned" }, {}, "due", /chunk 4 is due/],
  ])("%s", (_what, chunk, changes, code, message) => {
    const why = explainChunk({ ...CHUNK, ...chunk }, batch(changes));
    expect(why.code).toBe(code);
    expect(why.message).toMatch(message);
  });
});
