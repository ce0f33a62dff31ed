/** The metrics of an engine: accepted by promtool, counted correctly, bounded in labels. */
import { spawnSync } from "node:child_process";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openMemory } from "../../../src/memory.ts";
import {
  createEngine,
  definePipeline,
  type Engine,
  PermanentError,
  skipped,
  type Store,
  SluiceError,
  TransientError,
} from "../../../src/index.ts";
import { METRICS_CONTENT_TYPE } from "../../../src/runtime/observing/metrics-page.ts";
import { listPages } from "../../../src/runtime/engine/pages.ts";
import { installProgram } from "../../support/installed-program.ts";
import { findValue, readSamples } from "../../support/metrics-text.ts";

let store: Store;
let engine: Engine;
beforeEach(async () => {
  store = openMemory();
  engine = await createEngine({ store });
});
afterEach(() => engine.close());

/** Of ten items one fails permanently, one is skipped, one needs two attempts. */
function makePipeline(name = "mixed") {
  const tried = new Set<string>();
  return definePipeline({
    name,
    chunkSize: 3,
    maxRedrives: 0,
    retry: { baseMs: 1, capMs: 1 },
    process: (n: number, { batch }) => {
      if (n === 3) throw new PermanentError("never");
      if (n === 4) return skipped("not wanted");
      const first = `${batch}/${n}`;
      if (n !== 5 || tried.has(first)) return n;
      tried.add(first);
      throw new TransientError("not yet");
    },
  });
}
const TEN = Array.from({ length: 10 }, (_, n) => n);

test("promtool accepts the page of an engine that has run batches, and of a new one", async () => {
  installProgram("promtool", "prometheus");
  const check = (text: string): void => {
    const { status, stdout, stderr } = spawnSync("promtool", ["check", "metrics"], {
      input: text,
      encoding: "utf8",
    });
    expect({ status, said: stdout + stderr }).toEqual({ status: 0, said: "" });
  };
  check(await engine.metrics());
  const batch = await engine.submit(makePipeline("a.name-with_signs"), TEN);
  await batch.wait();
  check(await engine.metrics());
});

test("items, retries and durations are counted as in the store", async () => {
  const batch = await engine.submit(makePipeline(), TEN);
  await batch.wait();
  const text = await engine.metrics();
  const of = (name: string, more = {}): number | null =>
    findValue(text, name, { pipeline: "mixed", ...more });
  expect(of("sluice_items_total", { outcome: "succeeded" })).toBe(8);
  expect(of("sluice_items_total", { outcome: "skipped" })).toBe(1);
  expect(of("sluice_items_total", { outcome: "failed" })).toBe(1);
  expect(of("sluice_dead_letters_total")).toBe(1);
  expect(of("sluice_item_retries_total")).toBe(1);
  expect(of("sluice_leases_lost_total")).toBe(0);
  expect(of("sluice_item_duration_seconds_count", { step: "mixed" })).toBe(11);
  expect(of("sluice_item_duration_seconds_bucket", { le: "+Inf" })).toBe(11);
  // Four chunks, and the one that ran again.
  expect(of("sluice_chunk_duration_seconds_count")).toBe(5);
  expect(findValue(text, "sluice_store_up")).toBe(1);
});

test("work under a lost lease is not counted", async () => {
  const other = await store.registerWorker({ name: "thief" });
  let started: () => void = () => undefined;
  const running = new Promise<void>((resolve) => {
    started = resolve;
  });
  let release: () => void = () => undefined;
  const hold = new Promise<void>((resolve) => {
    release = resolve;
  });
  const slow = definePipeline({
    name: "slow",
    process: async (_n: number) => {
      started();
      await hold;
    },
  });
  const batch = await engine.submit(slow, [1, 2, 3]);
  await running;
  // As if another process had ended the batch meanwhile: every fence is raised.
  await store.fail(batch.id, { code: "GONE", message: `by worker ${other}` });
  release();
  await engine.close();
  const text = await engine.metrics();
  expect(findValue(text, "sluice_items_total", { outcome: "succeeded" })).toBe(0);
});

test("labels are names from the program, never of a batch, lane or item", async () => {
  const pipeline = makePipeline();
  for (let lane = 0; lane < 5; lane++) {
    await (await engine.submit(pipeline, TEN, { lane: `lane-${lane}` })).wait();
  }
  const samples = readSamples(await engine.metrics());
  const labels = new Set(samples.flatMap((sample) => Object.keys(sample.labels)));
  expect([...labels].toSorted()).toEqual(["le", "outcome", "pipeline", "state", "step"]);
  const [before, after] = [samples.length, readSamples(await engine.metrics()).length];
  expect(after).toBe(before);
});

test("the page reports a store that is down and still describes the worker", async () => {
  const away: Store = {
    ...store,
    readLoad: () => Promise.reject(new SluiceError("STORE_AWAY", "gone", { retryable: true })),
  };
  const lonely = await createEngine({ store: away });
  try {
    await (await lonely.submit(makePipeline(), TEN)).wait();
    const text = await lonely.metrics();
    expect(findValue(text, "sluice_store_up")).toBe(0);
    expect(findValue(text, "sluice_items_total", { outcome: "succeeded" })).toBe(8);
    expect(text).not.toContain("sluice_queue_items{");
  } finally {
    await lonely.close();
  }
});

test("failed calls of the store are counted, including repeated ones", async () => {
  let failures = 2;
  const shaky: Store = {
    ...store,
    work: (reports, lease) =>
      failures-- > 0
        ? Promise.reject(new SluiceError("STORE_BUSY", "not now", { retryable: true }))
        : store.work(reports, lease),
  };
  const patient = await createEngine({ store: shaky });
  try {
    await (await patient.submit(makePipeline(), TEN)).wait();
    expect(findValue(await patient.metrics(), "sluice_store_errors_total")).toBe(2);
  } finally {
    await patient.close();
  }
});

test("two engines of a process have separate pages", async () => {
  const other = await createEngine({ store });
  try {
    await (await engine.submit(makePipeline(), TEN)).wait();
    const pages = listPages(other);
    expect(pages["/metrics"]?.contentType).toBe(METRICS_CONTENT_TYPE);
    const text = (await pages["/metrics"]?.read()) ?? "";
    expect(text).not.toMatch(/^sluice_items_total\{/m);
    expect(text).toMatch(/^sluice_store_up 1$/m);
    expect(JSON.parse((await pages["/scaling"]?.read()) ?? "")).toHaveProperty(
      "recommendedWorkers",
    );
  } finally {
    await other.close();
  }
});
