import { hash } from "node:crypto";
import { beforeEach, describe, expect, test } from "vitest";
import { ManualClock } from "../../../test/support/manual-clock.ts";
import { createMemoryStore, type MemoryStore } from "../../adapters/memory/store.ts";
import type { DeadLetterFilter } from "../../core/items/redrive.ts";
import type { LimitRequest, RedriveRefusal } from "../../ports/store/operator-store.ts";
import type { LeasedChunk, Report } from "../../ports/store/worker-store.ts";
import { Operator, readAct, type RedriveOptions } from "./operator.ts";

const ME = { by: "eva", why: "wrong file" };

let clock: ManualClock;
let store: MemoryStore;
let operator: Operator;

beforeEach(() => {
  clock = new ManualClock();
  store = createMemoryStore({ clock, sha256: (text) => hash("sha256", text) });
  operator = new Operator(store, clock);
});

/** A batch of two chunks with two items each, ready to run as soon as its lane is free. */
async function submit(id: string, lane = "north", pipeline = "import"): Promise<string> {
  const step = {
    name: "only",
    chunkSize: 2,
    maxRedrives: 0,
    carries: false,
    budget: null,
    canary: null,
  };
  await store.submit({
    id,
    pipeline,
    lane,
    version: "1",
    key: null,
    input: "1",
    inputHash: "h",
    resume: false,
    open: false,
    sealWithinMs: 1_000,
    deadlineAt: null,
    settings: { strict: false, steps: [step] },
  });
  const { batch } = await store.startSlicing(id, false);
  const chunk = { items: 2, locator: "l", manifest: null, keys: null };
  const part = { batch: id, step: 0, afterChunks: 0, cursor: null, part: `${id}-1` };
  await store.plan({ ...part, chunks: [chunk, chunk], fence: batch.sliceFence });
  await store.finishSlicing(id, 2, batch.sliceFence);
  return id;
}

async function lease(pipeline = "import"): Promise<LeasedChunk> {
  const request = { worker: 1, pipeline, versions: ["1"], step: 0, batch: null };
  const { leased } = await store.work([], {
    ...request,
    itemsMax: 1,
    chunksMax: 1,
    leaseMs: 1_000,
    slots: 1,
    keeps: [],
  });
  return leased[0] as LeasedChunk;
}

/** Both items of the chunk fail for good; with `wins` the first one succeeds. */
async function settle(chunk: LeasedChunk, wins = false): Promise<void> {
  const error = { errorClass: "permanent", code: "BAD", message: "m" } as const;
  const failures = (wins ? [1] : [0, 1]).map((index) => ({
    index,
    key: `k${chunk.start + index}`,
    attempts: 1,
    retryInMs: null,
    ...error,
  }));
  const { batch, step, fence } = chunk;
  const nothing = {
    results: [],
    deferrals: [],
    checkpoints: [],
    contents: [],
    messages: [],
    commits: [],
  };
  const report: Report = {
    batch,
    step,
    chunk: chunk.chunk,
    fence,
    failures,
    ...nothing,
    outcomes: new Uint8Array([wins ? 0b1101 : 0b1111]),
    abandoned: [],
    limitWait: null,
    starting: [],
    intent: "yield",
    busyMs: 0,
  };
  await store.work([report], null);
}

async function finish(wins = true): Promise<void> {
  await settle(await lease(), wins);
  await settle(await lease(), wins);
}

const stateOf = async (id: string): Promise<string | undefined> =>
  (await store.getBatch(id))?.state;

describe("cancelling", () => {
  test("of one batch ends it, and records who did it and why", async () => {
    const id = await submit("b-1");
    expect(await operator.cancel({ batch: id }, ME)).toEqual({ cancelled: [id], endedBefore: [] });
    const record = store.state.records.find(({ type }) => type === "batch.cancel_requested");
    const { data } = JSON.parse(record?.body ?? "{}") as { data: object };
    expect(data).toEqual({ mode: "now", ...ME });
    expect(await stateOf(id)).toBe("cancelled");
  });

  test("of an ended batch changes nothing, and says so", async () => {
    const id = await submit("b-1");
    await finish();
    expect(await operator.cancel({ batch: id })).toEqual({ cancelled: [], endedBefore: [id] });
  });

  test("of a lane ends the newest batch first, so that no batch starts in between", async () => {
    for (const id of ["b-1", "b-2", "b-3"]) await submit(id);
    await submit("b-4", "south");
    const { cancelled } = await operator.cancel({ lane: "north" });
    expect(cancelled).toEqual(["b-3", "b-2", "b-1"]);
    expect(await stateOf("b-4")).toBe("running");
    const started = store.state.records.filter(({ type }) => type === "batch.started");
    expect(started.map(({ batch }) => batch)).toEqual(["b-1", "b-4"]);
  });

  test("of a pipeline ends its batches in every lane, except those that are already draining", async () => {
    await submit("b-1");
    await submit("b-2", "south");
    await submit("b-3", "south", "export");
    await lease();
    await operator.cancel({ batch: "b-1" }, { mode: "drain" });
    expect(await operator.cancel({ pipeline: "import" }, { mode: "drain" })).toEqual({
      cancelled: ["b-2"],
      endedBefore: [],
    });
    expect(await stateOf("b-1")).toBe("running");
    expect(await stateOf("b-3")).toBe("running");
  });

  test("with `now` overrides one that drains, also by lane", async () => {
    const id = await submit("b-1");
    await lease();
    await operator.cancel({ lane: "north" }, { mode: "drain" });
    const again = await operator.cancel({ lane: "north" }, { mode: "drain" });
    expect(again.cancelled).toEqual([]);
    const { cancelled } = await operator.cancel({ lane: "north" }, { mode: "now" });
    expect(cancelled).toEqual([id]);
    expect((await store.getBatch(id))?.cancel?.mode).toBe("now");
  });

  test("reaches every batch of a pipeline, however many are slow to end", async () => {
    const cancelled = new Set<string>();
    const ids = Array.from({ length: 2_500 }, (_, n) => `b-${n}`);
    const many = {
      listBatches: async ({ limit }: { limit: number }) =>
        ids.slice(0, limit).map((id) => ({
          id,
          active: true,
          cancel: cancelled.has(id) ? { mode: "now" } : null,
        })),
      cancel: async (id: string) => {
        cancelled.add(id);
        return { kind: "done" };
      },
    } as unknown as MemoryStore;
    const summary = await new Operator(many, clock).cancel({ pipeline: "import" });
    expect(summary.cancelled).toEqual(ids);
  });

  test("with an unknown mode is refused", async () => {
    const id = await submit("b-1");
    const mode = "later" as "now";
    await expect(operator.cancel({ batch: id }, { mode })).rejects.toMatchObject({
      code: "BAD_OPTION",
      field: "mode",
      hint: "Use one of drain, now.",
    });
    await expect(operator.cancel({ batch: "b-9" })).rejects.toMatchObject({
      code: "NOT_FOUND",
      kind: "batch",
    });
  });
});

describe("pausing and resuming", () => {
  test("each takes effect once, and returns whether it did", async () => {
    const id = await submit("b-1");
    expect(await operator.pause({ batch: id }, ME)).toBe(true);
    expect(await operator.pause({ batch: id })).toBe(false);
    expect((await store.getBatch(id))?.pause).toMatchObject({
      scope: "batch",
      mode: "drain",
      ...ME,
    });
    expect(await operator.resume({ batch: id })).toBe(true);
    expect(await operator.resume({ batch: id })).toBe(false);
  });

  for (const [what, target] of [
    ["lane", { lane: "north" }],
    ["pipeline", { pipeline: "import" }],
  ] as const) {
    test(`a ${what} stops its leased chunks`, async () => {
      await submit("b-1");
      await operator.pause(target);
      expect(await lease()).toBeUndefined();
      await operator.resume(target);
      expect(await lease()).toMatchObject({ batch: "b-1" });
    });
  }

  test("a batch that has ended is refused", async () => {
    const id = await submit("b-1");
    await finish();
    for (const act of [operator.pause({ batch: id }), operator.resume({ batch: id })]) {
      await expect(act).rejects.toMatchObject({ code: "WRONG_STATE", kind: "batch" });
    }
    await expect(operator.pause({ batch: "b-9" })).rejects.toMatchObject({
      code: "NOT_FOUND",
      kind: "batch",
    });
  });
});

describe("an unknown name", () => {
  test.each([
    [{ lane: "nort" }, "lane", "Did you mean north?"],
    [{ lane: "elsewhere" }, "lane", "`sluice list` shows all batches."],
    [{ pipeline: "imprt" }, "pipeline", "Did you mean import?"],
  ])("is refused with a suggestion: %j", async (target, kind, hint) => {
    await submit("b-1");
    for (const act of [
      () => operator.cancel(target),
      () => operator.pause(target),
      () => operator.resume(target),
    ]) {
      await expect(act()).rejects.toMatchObject({ code: "NOT_FOUND", kind, hint });
    }
  });

  test("stays known when all of its batches have ended", async () => {
    await submit("b-1");
    await finish();
    expect(await operator.pause({ lane: "north" })).toBe(true);
  });
});

describe("a lane's policy and order", () => {
  test("an unknown policy is refused with a suggestion", async () => {
    await submit("b-1");
    await expect(operator.setLanePolicy("north", "blok" as "block")).rejects.toMatchObject({
      code: "BAD_OPTION",
      field: "policy",
      hint: "Did you mean block? The policies are block, skip, park.",
    });
    await expect(operator.setLanePolicy("nord", "skip")).rejects.toMatchObject({
      code: "NOT_FOUND",
      kind: "lane",
    });
    await operator.setLanePolicy("north", "skip");
    expect(await operator.lanes()).toMatchObject([
      { lane: "north", policy: "skip", holder: "b-1" },
    ]);
  });

  test("a batch that waits can be moved; one that runs or has ended cannot", async () => {
    for (const id of ["b-1", "b-2", "b-3"]) await submit(id);
    await operator.move("b-3", { before: "b-2" });
    const refused = { code: "WRONG_STATE", kind: "batch" };
    await expect(operator.move("b-1", { to: "back" })).rejects.toMatchObject(refused);
    await expect(operator.move("b-3", { before: "b-9" })).rejects.toThrow(/both must wait/);
    await operator.cancel({ batch: "b-1" });
    expect(await stateOf("b-3")).toBe("running");
    await expect(operator.move("b-1", { to: "front" })).rejects.toThrow(/has ended: cancelled/);
  });
});

describe("limits", () => {
  const cap = { kind: "cap", scope: "lane", name: "north", value: 3 } as const;

  test("are set, listed and removed, with who did it", async () => {
    await submit("b-1");
    expect(await operator.setLimit(cap, ME)).toBe(true);
    expect(await operator.setLimit(cap, ME)).toBe(false);
    expect(await operator.listLimits()).toEqual([cap]);
    expect(await operator.setLimit({ ...cap, value: null }, ME)).toBe(true);
    expect(await operator.listLimitChanges()).toMatchObject([
      { ...ME, before: null, after: 3 },
      { ...ME, before: 3, after: null },
    ]);
  });

  test("of unknown names are refused with a suggestion", async () => {
    await submit("b-1");
    const refusals: [LimitRequest, object][] = [
      [
        { ...cap, name: "nort" },
        { code: "NOT_FOUND", kind: "lane", hint: "Did you mean north?" },
      ],
      [
        { ...cap, scope: "pipeline", name: "inport" },
        { code: "NOT_FOUND", kind: "pipeline" },
      ],
      [
        { ...cap, scope: "batch", name: "b-9" },
        { code: "NOT_FOUND", kind: "batch" },
      ],
      [
        { ...cap, value: 0 },
        { code: "BAD_OPTION", field: "limit" },
      ],
      [{ ...cap, kind: "cup" } as unknown as LimitRequest, { hint: "Did you mean cap?" }],
      [
        { kind: "weight", scope: "tenant", name: "import/nort", value: 3 },
        { code: "NOT_FOUND", kind: "tenant", hint: "Did you mean north?" },
      ],
    ];
    for (const [request, refusal] of refusals) {
      await expect(operator.setLimit(request)).rejects.toMatchObject(refusal);
    }
    await operator.cancel({ batch: "b-1" });
    await expect(operator.setLimit({ ...cap, scope: "batch", name: "b-1" })).rejects.toMatchObject({
      code: "WRONG_STATE",
      kind: "batch",
    });
  });

  test("a rate may have a name that no batch uses", async () => {
    const value = { perSecond: 5, burst: 10 };
    const rate = { kind: "rate", scope: "rate", name: "portal/north", value } as const;
    expect(await operator.setLimit(rate)).toBe(true);
    await expect(
      operator.setLimit({ ...rate, value: { perSecond: -1, burst: 1 } }),
    ).rejects.toMatchObject({ code: "BAD_OPTION", field: "limit" });
  });
});

describe("redriving", () => {
  test("reopens a batch with its dead letters, and says how many", async () => {
    const id = await submit("b-1");
    await finish();
    expect(await operator.redrive(id, { dryRun: true })).toMatchObject({ redriven: 2 });
    expect(await stateOf(id)).toBe("completed_with_errors");
    expect(await operator.redrive(id, { ceiling: 1 })).toMatchObject({ redriven: 1, left: 1 });
    expect(await stateOf(id)).toBe("running");
  });

  test("takes the dead letters that match a filter", async () => {
    const id = await submit("b-1");
    await finish();
    const count = async (filter: DeadLetterFilter): Promise<number> =>
      (await operator.redrive(id, { ...filter, dryRun: true })).redriven;
    expect(await count({ keys: ["k1"] })).toBe(1);
    expect(await count({ items: [3], step: 0 })).toBe(1);
    expect(await count({ codes: ["BAD"], classes: ["permanent"] })).toBe(2);
  });

  test.each<[RedriveRefusal, RegExp, (id: string) => Promise<unknown>, RedriveOptions]>([
    ["no_dead_letters", /no dead letter matches/, () => finish(), { codes: ["OTHER"] }],
    ["not_running", /has not run yet/, () => submitUnsliced("b-2"), {}],
    ["stopped_early", /with-cancelled/, (id) => operator.cancel({ batch: id }), {}],
  ])("refuses, with a remedy: %s", async (why, text, prepare, options) => {
    const id = why === "not_running" ? "b-2" : await submit("b-1");
    await prepare(id);
    const error = await operator.redrive(id, options).then(
      () => null,
      (thrown: unknown) => thrown as { code: string; message: string; hint: string },
    );
    expect(error?.code).toBe("CANNOT_REDRIVE");
    expect(`${error?.message} ${error?.hint}`).toMatch(text);
  });

  async function submitUnsliced(id: string): Promise<void> {
    await submit("b-1");
    const settings = store.state.batches.get("b-1")?.submission;
    if (settings !== undefined) await store.submit({ ...settings, id });
    await store.cancel("b-1", { mode: "now", ...ME });
  }

  test("refuses one that is being cancelled", async () => {
    const id = await submit("b-1");
    await settle(await lease());
    await lease();
    await operator.cancel({ batch: id });
    await expect(operator.redrive(id)).rejects.toThrow(/is being cancelled/);
  });

  test("a named item must be a dead letter", async () => {
    const id = await submit("b-1");
    await settle(await lease(), true);
    await expect(operator.redrive(id, { items: [9] })).rejects.toMatchObject({
      code: "NOT_FOUND",
      kind: "item",
    });
    await expect(operator.redrive(id, { items: [0] })).rejects.toThrow(/item 0 .* is succeeded/);
    await expect(operator.discard(id, { items: [2] })).rejects.toThrow(/item 2 .* is pending/);
    await operator.cancel({ batch: id });
    await expect(operator.redrive(id, { items: [2] })).rejects.toThrow(/item 2 .* is cancelled/);
    await expect(operator.redrive("b-9", { items: [0] })).rejects.toMatchObject({
      code: "NOT_FOUND",
      kind: "batch",
    });
  });

  test.each([
    { ceiling: 0 },
    { ceiling: 1.5 },
    { ceiling: Number.NaN },
    { perSecond: 0 },
    { perSecond: -1 },
    { perSecond: Number.POSITIVE_INFINITY },
  ])("refuses %j", async (options) => {
    const id = await submit("b-1");
    await finish();
    await expect(operator.redrive(id, options)).rejects.toMatchObject({
      code: "BAD_OPTION",
      field: Object.keys(options)[0],
    });
  });

  test("discarded dead letters are not redriven", async () => {
    const id = await submit("b-1");
    await finish();
    expect(await operator.discard(id, { keys: ["k1"] }, ME)).toBe(1);
    expect(await operator.discard(id, { keys: ["k1"] })).toBe(0);
    expect(await operator.redrive(id, { dryRun: true })).toMatchObject({ redriven: 1 });
  });
});

describe("asking why", () => {
  test("answers for the batch and for its next chunks", async () => {
    await submit("b-1");
    await submit("b-2");
    await store.beat(1, [{ pipeline: "import", version: "1" }], 1_000);
    const running = await operator.why("b-1");
    expect(running).toMatchObject({ batch: "b-1", code: "due" });
    expect(running.chunks.map(({ chunk, code }) => [chunk, code])).toEqual([
      [0, "due"],
      [1, "due"],
    ]);
    expect(await operator.why("b-2")).toMatchObject({ code: "lane" });
    expect((await operator.why("b-1", 1)).chunks).toHaveLength(1);
    await expect(operator.why("b-9")).rejects.toMatchObject({ code: "NOT_FOUND", kind: "batch" });
  });
});

describe("who did it", () => {
  test("is the user of the process by default", () => {
    expect(readAct({}).by.length).toBeGreaterThan(0);
    expect(readAct({ by: "eva" })).toEqual({ by: "eva", why: null });
  });

  test("is cut to the length that a record allows, and is always text", () => {
    const act = readAct({ by: "x".repeat(300), why: `\uD800${"y".repeat(3_000)}` });
    expect(act.by).toHaveLength(256);
    expect(act.why).toHaveLength(2_000);
    expect(act.why?.isWellFormed()).toBe(true);
  });
});
