/**
 * What an exported ledger contains about documents, and the number of documents in each final
 * state.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { ExportBuilder, SALT, toBytes } from "../../test/support/ledger-export.ts";
import { countFinalStates, readDocument } from "./timeline.ts";

async function write(builder: ExportBuilder): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-timeline-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const path = join(folder, "a.ledger.jsonl");
  await writeFile(path, toBytes(builder.lines()));
  return path;
}

const begin = (documents: number): ExportBuilder =>
  new ExportBuilder().begin({ itemLedger: true }).plan(documents);

test("a document's events of both steps are listed in order, without those of other documents", async () => {
  const details = { salt: SALT, details: { code: "EMPTY" } };
  const builder = begin(2).block([
    { item: 0, key: "one", state: "RECEIVED" },
    { item: 1, key: "two", state: "RECEIVED" },
    { item: 1, key: "two", state: "retried", code: "ECONNRESET" },
  ]);
  builder.plan(2, 1).block(
    [
      { item: 1, key: "two", state: "VALIDATING" },
      { item: 1, key: "two", state: "REJECTED", details },
      { item: 0, key: "one", state: "ARCHIVED" },
    ],
    { step: 1, block: 2 },
  );
  const events = await readDocument([await write(builder)], "two");
  expect(events.map(({ state, code }) => [state, code])).toEqual([
    ["RECEIVED", null],
    ["retried", "ECONNRESET"],
    ["VALIDATING", null],
    ["REJECTED", null],
  ]);
  expect(events.at(-1)?.details).toEqual({ code: "EMPTY" });
});

test("a document that came twice is listed twice, and an unknown one not at all", async () => {
  const builder = begin(2).block([
    { item: 0, key: "same", state: "ARCHIVED" },
    { item: 1, key: "same", state: "DEDUPED" },
  ]);
  const path = await write(builder);
  const events = await readDocument([path], "same");
  expect(events.map(({ state }) => state)).toEqual(["ARCHIVED", "DEDUPED"]);
  expect(await readDocument([path], "other")).toEqual([]);
});

test("documents are counted by their final states, and unfinished ones are not counted", async () => {
  const states = ["ARCHIVED", "ARCHIVED", "DEDUPED", "REJECTED", "RECEIVED", "VALIDATING"];
  const builder = begin(6).block(states.map((state, item) => ({ item, state })));
  expect(Object.fromEntries(await countFinalStates(await write(builder)))).toEqual({
    ARCHIVED: 2,
    DEDUPED: 1,
    REJECTED: 1,
  });
});

test("a document that was archived twice is counted once", async () => {
  const builder = begin(1)
    .block([{ item: 0, state: "ARCHIVED" }])
    .lose({})
    .block(
      [
        { item: 0, state: "ARCHIVED", attempt: 2 },
        { item: 0, state: "succeeded", attempt: 2 },
      ],
      { fence: 2, block: 2 },
    );
  expect(Object.fromEntries(await countFinalStates(await write(builder)))).toEqual({ ARCHIVED: 1 });
});

test("the earlier rejection of a redriven document does not count", async () => {
  const builder = begin(1)
    .block([
      { item: 0, state: "REJECTED" },
      { item: 0, state: "failed", code: "DOWNLOAD_FAILED" },
    ])
    .putBack([0], 2)
    .record("dead_letters.redriven", { step: 0, items: 1, drive: 2 });
  expect(Object.fromEntries(await countFinalStates(await write(builder)))).toEqual({});
});
