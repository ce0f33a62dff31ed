import { expect, test } from "vitest";
import { buildSample, toBytes } from "../../../test/support/ledger-export.ts";
import { drawExport, makeDraw } from "../../../test/support/ledger-corpus.ts";
import { dissect } from "../../../test/support/ledger-forger.ts";
import { rangesOf } from "../../../test/support/naive-data.ts";
import { readItemHistories, readTimeline, type TimelineEntry } from "./timeline.ts";

const sample = buildSample();
const open = (): Buffer[] => [toBytes(sample.lines())];

async function readAll(bytes: Buffer[]): Promise<TimelineEntry[]> {
  const entries: TimelineEntry[] = [];
  await readTimeline(bytes, (entry) => void entries.push(entry));
  return entries;
}

test("the timeline has every record of the batch and of its items, in their order", async () => {
  const entries = await readAll(open());
  const types = entries.flatMap((entry) => (entry.kind === "batch" ? [entry.type] : []));
  expect(types).toEqual([
    "batch.submitted",
    "batch.started",
    "slicing.started",
    "slicing.finished",
    "items.recorded",
    "items.recorded",
    "items.recorded",
    "step.ended",
    "batch.drained",
    "batch.ended",
    "batch.released",
  ]);
  const told = entries.filter(({ kind, record }) => kind === "item" && record.startsWith("7"));
  expect(told.at(-6)).toMatchObject({ record: "7/7", item: 9, key: "item-9", state: "RECEIVED" });
  expect(told.at(-1)).toMatchObject({
    record: "7",
    item: 9,
    key: "item-9",
    state: "failed",
    code: "NO_PAGE",
    worker: 4,
    attempt: 1,
    drive: 1,
  });
});

test("the history of an item has its states, times, workers, errors and details", async () => {
  const [history, ...others] = await readItemHistories(open, ({ key }) => key === "item-4");
  expect(others).toEqual([]);
  expect(history).toMatchObject({ step: 0, item: 4, key: "item-4" });
  const told = history?.entries.map(({ record, state, attempt, code, worker, details }) => {
    return { record, state, attempt, code, worker, details };
  });
  expect(told).toEqual([
    { record: "5/8", state: "RECEIVED", attempt: 1, code: null, worker: 3, details: null },
    { record: "5", state: "retried", attempt: 1, code: "ECONNRESET", worker: 3, details: null },
    {
      record: "6/0",
      state: "RECEIVED",
      attempt: 2,
      code: null,
      worker: 3,
      details: { name: "Ann" },
    },
    { record: "6/1", state: "STORED", attempt: 2, code: null, worker: 3, details: null },
    { record: "6", state: "succeeded", attempt: null, code: null, worker: 3, details: null },
  ]);
});

test("the histories of all items contain every record of an item exactly once", async () => {
  for (const seed of [4, 5, 6, 7]) {
    const builder = drawExport(makeDraw(seed));
    const histories = await readItemHistories(
      () => [toBytes(builder.lines())],
      () => true,
    );
    const { entries } = dissect(builder.lines());
    const told = histories.flatMap(({ entries: all }) => all);
    const recorded = told.filter(({ record }) => record.includes("/"));
    const facts = entries
      .flatMap(({ items }) => items)
      .map((text) => {
        const { at, item, state, step } = JSON.parse(text) as Record<string, unknown>;
        return [step, item, at, state].join(" ");
      });
    const read = recorded.map(({ step, item, at, state }) => [step, item, at, state].join(" "));
    expect(read.toSorted()).toEqual(facts.toSorted());
    const ends = told.filter(({ state }) => state === "succeeded" || state === "skipped");
    const listed = entries.flatMap(({ record }) => {
      const { type, data } = record as { type: string; data: Record<string, string> };
      if (type !== "items.recorded") return [];
      return [...rangesOf(data["succeeded"]), ...rangesOf(data["skipped"])];
    });
    const rising = (a: number, b: number): number => a - b;
    const numbers = ends.map(({ item }) => item).toSorted(rising);
    expect(numbers).toEqual(listed.toSorted(rising));
  }
});
