/**
 * What handlers record about their items is in the ledger of their batch, whatever their outcome.
 */
import { hash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { canonicalize, type Json } from "../../../src/core/base/canonical-json.ts";
import { PermanentError, TransientError } from "../../../src/core/base/errors.ts";
import { computeBlockRoot } from "../../../src/ledger/format/block.ts";
import { readItemLine, type ItemLine } from "../../../src/ledger/format/item-line.ts";
import { digestDetails } from "../../../src/ledger/format/item-record.ts";
import { openKeyFile } from "../../../src/ledger/keys/key-file.ts";
import { isConclusive } from "../../../src/ledger/verify/verdict.ts";
import { verifyExport } from "../../../src/ledger/verify/verify-export.ts";
import type { Store } from "../../../src/ports/store/store.ts";
import type { ItemContext } from "../../../src/runtime/pipeline/contexts.ts";
import { failed, skipped, succeeded } from "../../../src/runtime/pipeline/outcomes.ts";
import { definePipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { jsonl } from "../../../src/sources/jsonl/jsonl.ts";
import { exportPem } from "../../support/ledger-export.ts";
import {
  findBreak,
  foldOutcomes,
  listChanges,
  readChain,
  type ToldOutcome,
} from "../../support/ledger-reading.ts";
import { collect, describeOnStores, makeSignal, numbers } from "./engine-rig.ts";

/** An item that gives up becomes a dead letter at once: automatic passes are not tested here. */
const once = { retry: { attempts: 3, baseMs: 1, capMs: 2 }, maxRedrives: 0 };
const WITHIN_MS = 20_000;
const ledger = { item: true, states: ["RECEIVED", "DONE"] } as const;

interface Ledger {
  readonly outcomes: ReadonlyMap<number, ToldOutcome>;
  readonly lines: readonly ItemLine[];
  readonly details: readonly {
    readonly i: number;
    readonly salt: string;
    readonly details: Json;
  }[];
}

/** The whole ledger of a batch of one step. Its chain and blocks must be valid. */
async function readLedger(store: Store, id: string): Promise<Ledger> {
  const links = await readChain(store, id);
  expect(findBreak(links)).toBeNull();
  const changes = listChanges(links);
  const { outcomes, faults } = foldOutcomes(changes, 0);
  expect(faults).toEqual([]);
  const lines: ItemLine[] = [];
  const details: Ledger["details"][number][] = [];
  for (const { body, block } of links.filter(({ type }) => type === "items.recorded")) {
    const { data } = JSON.parse(body) as { data: ReturnType<typeof listChanges>[number] };
    expect(block === null).toBe(data.block === undefined);
    if (block === null || data.block === undefined) continue;
    const texts = block.lines.split("\n").slice(0, -1);
    expect(data.block.count).toBe(texts.length);
    expect(data.block.root).toBe(computeBlockRoot(Buffer.from(block.lines)));
    for (const text of texts) {
      const read = readItemLine(text);
      if (read.kind === "refused") throw new Error(`${read.why}: ${text}`);
      lines.push(read.line);
    }
    const kept = block.details?.split("\n").slice(0, -1) ?? [];
    for (const text of kept) details.push(JSON.parse(text) as Ledger["details"][number]);
  }
  return { outcomes, lines, details };
}

const pick = ({ item, state, attempt }: ItemLine): string => `${item} ${state} ${attempt}`;

interface Row {
  readonly n: number;
}

const rows = {
  name: "rows",
  ledger,
  ...once,
  source: ({ input }: { readonly input: string }) => jsonl<Row>(input),
  key: ({ n }: Row) => `row-${n}`,
};
const receive = (_row: Row, { record }: ItemContext): void => record("RECEIVED");

/** Each reads its items in its own way. */
const READERS = [
  ["a handler", definePipeline({ ...rows, process: receive })],
  [
    "a chunk's handler",
    definePipeline({
      ...rows,
      processChunk: (items, { record }) =>
        items.map((item) => {
          record(item, "RECEIVED");
          return succeeded();
        }),
    }),
  ],
  [
    "de-duplication",
    definePipeline({ ...rows, process: receive, dedupe: { identity: ({ n }: Row) => String(n) } }),
  ],
] as const;

describeOnStores("recording", (test) => {
  test("a repeated item has the state that its pipeline names for repeats, and its key", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const handled: string[] = [];
    const pipeline = definePipeline({
      name: "papers",
      ledger,
      key: (paper: string) => `paper-${paper}`,
      dedupe: { identity: (paper: string) => paper, state: "DONE" },
      process: (paper: string, { record }) => {
        handled.push(paper);
        record("RECEIVED");
      },
    });
    const handle = await engine.submit(pipeline, ["a", "b", "a", "b", "b"]);
    const { counts } = await handle.wait();
    expect(counts).toMatchObject({ succeeded: 2, skipped: 3 });
    expect(handled.toSorted()).toEqual(["a", "b"]);
    const { lines } = await readLedger(rig.store, handle.id);
    const told = lines.map(({ key, state, attempt }) => `${key} ${state} ${attempt}`);
    expect(told.toSorted()).toEqual([
      "paper-a DONE 0",
      "paper-a RECEIVED 1",
      "paper-b DONE 0",
      "paper-b DONE 0",
      "paper-b RECEIVED 1",
    ]);
    const verdict = await verifyExport(engine.exportLedger(handle.id), { trusted: [] });
    expect(verdict.kind).toBe("intact");
  });

  test("states are in the ledger with their actor, time and content, and are not events", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "papers",
      ledger,
      key: (n: number) => `paper-${n}`,
      process: (n: number, { record }) => {
        record("RECEIVED");
        record("DONE", { pages: n });
      },
    });
    const handle = await engine.submit(pipeline, numbers(3), { lane: "north" });
    await handle.wait();
    const { outcomes, lines, details } = await readLedger(rig.store, handle.id);
    expect([...outcomes.values()]).toEqual(["succeeded", "succeeded", "succeeded"]);
    expect(lines.map(pick).toSorted()).toEqual(
      numbers(3).flatMap((n) => [`${n} DONE 1`, `${n} RECEIVED 1`]),
    );
    const [first] = lines.filter(({ item }) => item === 1);
    const content = hash("sha256", canonicalize(1));
    const batch = handle.id;
    expect(first).toMatchObject({ batch, lane: "north", step: 0, key: "paper-1", content });
    expect(first?.worker).toBeGreaterThan(0);
    expect(lines.filter(({ item }) => item === 1).at(-1)).not.toHaveProperty("content");
    expect(details.map((one) => one.details)).toEqual([{ pages: 0 }, { pages: 1 }, { pages: 2 }]);
    const told = lines.filter(({ details: digest }) => digest !== undefined);
    expect(told.map((line) => line.details)).toEqual(
      details.map(({ salt, details: kept }) => digestDetails(salt, kept)),
    );
    const events = await collect(handle.events());
    expect(events.map(({ type }) => type)).not.toContain("items.recorded");
  });

  test("records of a failed attempt stay, and the item has the records of all attempts", async ({
    rig,
  }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "papers",
      ledger,
      ...once,
      process: (n: number, { record, attempt }) => {
        record("RECEIVED");
        if (n === 0 && attempt < 3) throw new TransientError("not yet", { code: "BUSY" });
        if (n === 1) throw new PermanentError("never", { code: "BROKEN" });
        if (n === 2) return skipped();
        record("DONE");
        return undefined;
      },
    });
    const handle = await engine.submit(pipeline, numbers(4));
    await handle.wait();
    const { outcomes, lines } = await readLedger(rig.store, handle.id);
    expect(Object.fromEntries(outcomes)).toEqual({
      0: "succeeded",
      1: "failed",
      2: "skipped",
      3: "succeeded",
    });
    expect(lines.filter(({ item }) => item === 0).map(pick)).toEqual([
      "0 RECEIVED 1",
      "0 RECEIVED 2",
      "0 RECEIVED 3",
      "0 DONE 3",
    ]);
    const changes = listChanges(await readChain(rig.store, handle.id));
    expect(changes.flatMap(({ retried = [] }) => retried)).toMatchObject([
      { item: 0, attempts: 1, code: "BUSY" },
      { item: 0, attempts: 2, code: "BUSY" },
    ]);
    expect(changes.flatMap((one) => one.failed ?? [])).toMatchObject([{ item: 1, code: "BROKEN" }]);
  });

  test("a chunk's handler records for each of its items", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "papers",
      ledger,
      ...once,
      key: (n: number) => `paper-${n}`,
      processChunk: (items, { record }) =>
        items.map((item) => {
          record(item, "RECEIVED", { n: item.item });
          return item.item === 1 ? failed(new PermanentError("no")) : succeeded();
        }),
    });
    const handle = await engine.submit(pipeline, numbers(3));
    await handle.wait();
    const { outcomes, lines, details } = await readLedger(rig.store, handle.id);
    expect(Object.fromEntries(outcomes)).toEqual({ 0: "succeeded", 1: "failed", 2: "succeeded" });
    expect(lines.map(({ key }) => key)).toEqual(["paper-0", "paper-1", "paper-2"]);
    expect(details).toHaveLength(3);
  });

  test("an invalid record fails its item with the reason", async ({ rig }) => {
    const engine = await rig.start();
    const wrongs: ((context: ItemContext) => void)[] = [
      ({ record }) => record("RECIEVED"),
      ({ record }) => record("DONE", { text: "x".repeat(65_536) }),
      ({ record }) => record("DONE", () => undefined),
      ({ record }) => record("DONE", "half \ud800"),
      ({ record }) => record(7 as unknown as string),
    ];
    const pipeline = definePipeline({
      name: "papers",
      ledger,
      ...once,
      process: (n: number, context) => wrongs[n]?.(context),
    });
    const handle = await engine.submit(pipeline, numbers(wrongs.length));
    await handle.wait();
    const letters = await collect(handle.deadLetters());
    expect(letters.map(({ code }) => code)).toEqual([
      "UNDECLARED",
      ...Array.from({ length: 3 }, () => "BAD_DETAILS"),
      "UNDECLARED",
    ]);
    expect(letters[0]?.message).toContain("Did you mean RECEIVED?");
    expect(letters.every(({ attempts }) => attempts === 1)).toBe(true);
    const { lines } = await readLedger(rig.store, handle.id);
    expect(lines.filter(({ state }) => state !== "seen")).toEqual([]);
  });

  test("without a ledger of items recording fails, and no records are written", async ({ rig }) => {
    const engine = await rig.start();
    const pipeline = definePipeline({
      name: "papers",
      ...once,
      process: (_n: number, { record }) => record("RECEIVED"),
    });
    const handle = await engine.submit(pipeline, [0]);
    await handle.wait();
    const [letter] = await collect(handle.deadLetters());
    expect(letter).toMatchObject({ code: "UNDECLARED", attempts: 1 });
    const types = (await readChain(rig.store, handle.id)).map(({ type }) => type);
    expect(types).not.toContain("items.recorded");
  });

  test("a handler that has returned can record nothing more", async ({ rig }) => {
    const engine = await rig.start();
    const late = makeSignal();
    const seen: unknown[] = [];
    const tried = makeSignal();
    const pipeline = definePipeline({
      name: "papers",
      ledger,
      process: (_n: number, { record }) => {
        void late.wait.then(() => {
          try {
            record("DONE");
          } catch (error) {
            seen.push(error);
          }
          tried.give();
        });
      },
    });
    const handle = await engine.submit(pipeline, [0]);
    await handle.wait();
    late.give();
    await tried.wait;
    expect(seen).toMatchObject([{ name: "SluiceError", code: "LATE_CALL", kind: "record" }]);
    const { lines } = await readLedger(rig.store, handle.id);
    expect(lines.filter(({ state }) => state !== "seen")).toEqual([]);
  });

  test("many records of one chunk are written in several blocks, and none is lost", async ({
    rig,
  }) => {
    const engine = await rig.start({ tuning: { flushItems: 10 } });
    const pipeline = definePipeline({
      name: "papers",
      ledger,
      chunkSize: 50,
      process: async (_n: number, { record }) => {
        for (let nth = 0; nth < 5; nth++) record(nth < 4 ? "RECEIVED" : "DONE", "x".repeat(60_000));
      },
    });
    const handle = await engine.submit(pipeline, numbers(50));
    await handle.wait();
    const { lines, details, outcomes } = await readLedger(rig.store, handle.id);
    expect(lines).toHaveLength(250);
    expect(details).toHaveLength(250);
    expect(outcomes.size).toBe(50);
    const blocks = (await readChain(rig.store, handle.id)).filter(({ block }) => block !== null);
    expect(blocks.length).toBeGreaterThan(10);
  });

  for (const [what, pipeline] of READERS) {
    test(`an unreadable item fails alone, and the ledger says so: ${what}`, async ({ rig }) => {
      const keyFile = join(rig.folder, "ledger.key");
      const engine = await rig.start({ ledger: { keyFile } });
      const file = join(rig.folder, "rows.jsonl");
      writeFileSync(file, '{"n":0}\nnonsense\n{"n":2}\n');
      const handle = await engine.submit(pipeline, file);
      expect(await handle.wait()).toMatchObject({
        state: "completed_with_errors",
        counts: { succeeded: 2, failed: 1 },
      });
      const letters = await collect(handle.deadLetters());
      expect(letters).toMatchObject([{ item: 1, code: "MALFORMED_LINE" }]);
      const { outcomes, lines } = await readLedger(rig.store, handle.id);
      expect(Object.fromEntries(outcomes)).toEqual({ 0: "succeeded", 1: "failed", 2: "succeeded" });
      // Its content is unknown.
      const told = lines.map(({ item, state, content }) => `${item} ${state} ${typeof content}`);
      expect(told.toSorted()).toEqual([
        "0 RECEIVED string",
        "1 seen undefined",
        "2 RECEIVED string",
      ]);
      expect(await engine.waitForSubscribers({ withinMs: WITHIN_MS })).toBe(true);
      const trusted = [exportPem(openKeyFile(keyFile, "").key)];
      const verdict = await verifyExport(engine.exportLedger(handle.id), { trusted });
      expect(isConclusive(verdict), JSON.stringify(verdict)).toBe(true);
    });
  }
});
