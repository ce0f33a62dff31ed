import { hash } from "node:crypto";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { ManualClock } from "../../../test/support/manual-clock.ts";
import { SluiceError } from "../../core/base/errors.ts";
import { SeededRandom } from "../../testing/world/seeded-random.ts";
import { createMemoryStore, type MemoryStore } from "../../adapters/memory/store.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";
import { Conductor } from "./conductor.ts";
import type { LogEntry } from "../system/log.ts";
import { definePipeline, type Pipeline } from "../pipeline/pipeline.ts";
import { resolveSettings } from "../system/settings.ts";
import { describeStep } from "../pipeline/step.ts";

const ACT = { by: "op", why: null };
const WORKER = 1;

let clock: ManualClock;
let store: MemoryStore;
let conductor: Conductor;
let logs: LogEntry[];

const erase = (pipeline: unknown): Pipeline => pipeline as Pipeline;
const owned = erase(definePipeline({ name: "p", process: () => undefined }));
const sourced = erase(
  definePipeline({ name: "p", source: () => [1, 2, 3], process: () => undefined }),
);

beforeEach(() => {
  clock = new ManualClock();
  logs = [];
  store = createMemoryStore({ clock, sha256: (text) => hash("sha256", text) });
  conductor = new Conductor({
    store,
    callersStore: store,
    clock,
    random: new SeededRandom(1),
    worker: WORKER,
    log: (entry) => void logs.push(entry),
    settings: resolveSettings({}),
    onFatal: (error) => {
      throw error;
    },
    offerInline: () => null,
  });
});

afterEach(() => conductor.stop());

async function submit(id: string, changes: object = {}): Promise<BatchSnapshot> {
  const { batch } = await store.submit({
    id,
    pipeline: "p",
    lane: "north",
    version: "1",
    key: null,
    input: "1",
    inputHash: "h",
    resume: false,
    open: false,
    sealWithinMs: 86_400_000,
    deadlineAt: null,
    settings: { strict: false, steps: sourced.steps.map(describeStep) },
    ...changes,
  });
  return batch;
}

const reasons = (): string[] =>
  logs
    .filter(({ event }) => event === "batch.start_skipped")
    .map(({ message }) => message.split(": ").at(-1) ?? "");

describe("before a batch is sliced", () => {
  test("one that holds its lane is sliced", async () => {
    const batch = await submit("b-1");
    expect(await conductor.slice(batch, sourced, null)).toMatchObject({ state: "running" });
    expect(store.state.batches.get("b-1")?.steps[0]?.counts.planned).toBe(3);
    expect(reasons()).toEqual([]);
    // The claim is released, so that no other process waits for it.
    expect(store.state.claims.size).toBe(0);
  });

  test("one that waits for its turn is not sliced yet", async () => {
    await submit("b-1");
    const batch = await submit("b-2");
    expect(await conductor.slice(batch, sourced, null)).toBeNull();
    expect(reasons()).toEqual(["it waits for its turn"]);
    expect(store.state.batches.get("b-2")?.state).toBe("submitted");
  });

  for (const scope of ["batch", "lane", "pipeline"] as const) {
    test(`one whose ${scope} is paused is not sliced yet`, async () => {
      const batch = await submit("b-1");
      const name = { batch: "b-1", lane: "north", pipeline: "p" }[scope];
      await store.pause({ scope, name, mode: "drain", ...ACT });
      expect(await conductor.slice(batch, sourced, null)).toBeNull();
      expect(reasons()).toEqual(["it is paused"]);
    });
  }

  test("one that was cancelled since it was found is skipped", async () => {
    const batch = await submit("b-1");
    await store.cancel("b-1", { mode: "now", ...ACT });
    expect(await conductor.slice(batch, sourced, null)).toBeNull();
    expect(reasons()).toEqual(["it has ended"]);
  });

  test("one that another process slices is skipped", async () => {
    const batch = await submit("b-1");
    await store.claim("slicing/b-1", WORKER + 1, 60_000);
    expect(await conductor.slice(batch, sourced, null)).toBeNull();
    expect(reasons()).toEqual(["another process slices it"]);
    expect(store.state.batches.get("b-1")?.state).toBe("submitted");
  });

  test("conductors that only look do not disturb the one that slices", async () => {
    const batch = await submit("b-1");
    await store.claim("slicing/b-1", WORKER + 1, 60_000);
    const claim = vi.spyOn(store, "claim");
    const unclaim = vi.spyOn(store, "unclaim");
    expect(await conductor.slice(batch, sourced, null)).toBeNull();
    clock.advance(resolveSettings({}).leaseMs * 2);
    await Promise.resolve();
    expect(claim).toHaveBeenCalledOnce();
    expect(unclaim).not.toHaveBeenCalled();
  });

  test("one that was abandoned for hours is skipped, also by the process that has its items", async () => {
    const batch = await submit("b-1", { input: null });
    clock.advance(7 * 3_600_000);
    await submit("b-2");
    const { watchDelays } = { watchDelays: { steps: [], elseMs: 60_000, stallMs: 60_000 } };
    const policy = { watchDelays, stallsMax: 3, orphanMs: 900_000, staleMs: 6 * 3_600_000 };
    await store.sweep(policy);
    expect(store.state.batches.get("b-1")?.parked?.code).toBe("STALE");
    expect(await conductor.slice(batch, owned, [1])).toBeNull();
    expect(reasons()).toEqual(["it is parked as stale"]);
  });

  test("items that exist only in this process are planned before their batch has its turn", async () => {
    await submit("b-1");
    const batch = await submit("b-2", { input: null });
    expect(await conductor.slice(batch, owned, [1, 2])).toMatchObject({ state: "ready" });
    expect(store.state.batches.get("b-2")?.steps[0]?.counts.planned).toBe(2);
  });

  test("a slicing that is under way is shared, not started again", async () => {
    const batch = await submit("b-1");
    const first = conductor.slice(batch, sourced, null);
    expect(conductor.slice(batch, sourced, null)).toBe(first);
    await first;
    expect(store.state.batches.get("b-1")?.steps[0]?.sliceFence).toBe(1);
  });

  test("a step that the pipeline no longer has fails its batch with a hint", async () => {
    const batch = await submit("b-1");
    expect(await conductor.slice({ ...batch, step: 1 }, sourced, null)).toMatchObject({
      state: "failed",
      reason: { code: "PIPELINE_CHANGED" },
    });
  });
});

describe("slicing with an old view of the batch", () => {
  const stepped = erase(
    definePipeline({
      name: "p",
      steps: [
        { name: "a", source: () => [] as unknown[], process: () => undefined },
        { name: "b", source: () => [1, 2], process: () => undefined },
      ],
    }),
  );

  test("does not finish a later step for it", async () => {
    const settings = { strict: false, steps: stepped.steps.map(describeStep) };
    const old = await submit("b-1", { settings });
    // The first step is empty, and ends at once.
    expect(await conductor.slice(old, stepped, null)).toMatchObject({ state: "slicing", step: 1 });
    expect(await conductor.slice(old, stepped, null)).toBeNull();
    expect(store.state.batches.get("b-1")).toMatchObject({ state: "slicing", step: 1 });
    const now = await store.getBatch("b-1");
    await conductor.slice(now as BatchSnapshot, stepped, null);
    expect(store.state.batches.get("b-1")?.steps[1]?.counts.planned).toBe(2);
  });

  test("a repeated finish does not finish the next step", async () => {
    const settings = { strict: false, steps: stepped.steps.map(describeStep) };
    await submit("b-1", { settings });
    const { batch: first } = await store.startSlicing("b-1", false);
    await store.finishSlicing("b-1", 0, first.sliceFence);
    const { batch: second } = await store.startSlicing("b-1", false);
    expect(second).toMatchObject({ state: "slicing", step: 1, chunks: 0 });
    const again = await store.finishSlicing("b-1", 0, first.sliceFence);
    expect(again).toMatchObject({ kind: "moved_on", batch: { state: "slicing", step: 1 } });
  });

  test("submitted items do not become those of a later step", async () => {
    const carrying = erase(
      definePipeline({
        name: "p",
        steps: [
          { name: "a", process: () => undefined },
          { name: "b", source: () => [1, 2], process: () => undefined },
        ],
      }),
    );
    const settings = { strict: false, steps: carrying.steps.map(describeStep) };
    const old = await submit("b-1", { settings, input: null });
    await conductor.sliceOwned(old, carrying, []);
    expect(store.state.batches.get("b-1")).toMatchObject({ state: "slicing", step: 1 });
    await conductor.sliceOwned(old, carrying, ["mine"]);
    expect(store.state.batches.get("b-1")?.steps[1]?.counts.planned).toBe(0);
  });
});

test("a submitter gets the error when the store cannot take its items", async () => {
  const full = new SluiceError("STORE_FULL", "the disk is full", { retryable: true });
  const refuse = (): Promise<never> => Promise.reject(full);
  const parts = {
    store,
    callersStore: { ...store, plan: refuse, planInline: refuse },
    clock,
    random: new SeededRandom(1),
    worker: WORKER,
    log: () => undefined,
    settings: resolveSettings({}),
    onFatal: () => undefined,
    offerInline: () => null,
  };
  const batch = await submit("b-full", { input: null });
  const other = new Conductor(parts);
  await expect(other.sliceOwned(batch, owned, [1, 2, 3])).rejects.toBe(full);
  await other.stop();
});

test("slicing that fails unexpectedly is retried with growing delays", async () => {
  const odd = new TypeError("cannot read properties of undefined");
  const look = vi.spyOn(store, "getBatch").mockRejectedValue(odd);
  const tries = (): number => look.mock.calls.length;
  conductor.add(sourced);
  conductor.start();
  await submit("b-1");
  await clock.run(600_000);
  expect(tries()).toBeGreaterThan(10);
  expect(tries()).toBeLessThan(30);
  expect(logs.find(({ event }) => event === "loop.unexpected_error")).toMatchObject({
    level: "error",
    error: odd,
  });
  vi.restoreAllMocks();
  await clock.run(120_000);
  expect(store.state.batches.get("b-1")?.steps[0]?.counts.planned).toBe(3);
});

test("a batch behind many batches of other versions is sliced", async () => {
  conductor.add(sourced);
  conductor.start();
  for (let at = 0; at < 100; at++) await submit(`old-${at}`, { lane: `lane-${at}`, version: "0" });
  await submit("new", { lane: "its own" });
  await clock.run(10_000);
  expect(store.state.batches.get("new")?.steps[0]?.counts.planned).toBe(3);
  expect(store.state.batches.get("old-0")?.state).toBe("submitted");
});

test("a batch behind many such batches is sliced", async () => {
  const getBatch = store.getBatch.bind(store);
  vi.spyOn(store, "getBatch").mockImplementation((id) =>
    id.startsWith("bad") ? Promise.reject(new TypeError("odd")) : getBatch(id),
  );
  conductor.add(sourced);
  conductor.start();
  for (let at = 0; at < 40; at++) await submit(`bad-${at}`, { lane: `lane-${at}` });
  await submit("good", { lane: "its own" });
  await clock.run(120_000);
  expect(store.state.batches.get("good")?.steps[0]?.counts.planned).toBe(3);
});
