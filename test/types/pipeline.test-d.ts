/** Items, inputs and results are typed from the pipeline; checked by `npm run types`. */
import {
  type BatchHandle,
  createEngine,
  csv,
  definePipeline,
  defineStep,
  jsonl,
  type OpenBatch,
  skipped,
  succeeded,
} from "sluice";
import { expectTypeOf } from "vitest";
import { z } from "zod";

const engine = await createEngine({ store: ":memory:" });

// The schema gives the item's type, the handler the result's; a text is the default input.
const thumbnails = definePipeline({
  name: "thumbnails",
  item: z.object({ id: z.string(), url: z.url() }),
  source: ({ input }) => {
    expectTypeOf(input).toEqualTypeOf<string>();
    return jsonl(input);
  },
  key: (image) => image.id,
  async process(image, { signal, attempt }) {
    expectTypeOf(image).toEqualTypeOf<{ id: string; url: string }>();
    expectTypeOf(signal).toEqualTypeOf<AbortSignal>();
    expectTypeOf(attempt).toEqualTypeOf<number>();
    return image.url === "" ? skipped("no address") : { bytes: image.url.length };
  },
});
expectTypeOf(await engine.submit(thumbnails, "images.jsonl")).toEqualTypeOf<
  BatchHandle<{ bytes: number }>
>();
// @ts-expect-error the input is a text
await engine.submit(thumbnails, 42);

// A ledger of items, and what handlers record in it.
definePipeline({
  name: "papers",
  ledger: { item: true, states: ["RECEIVED", "ARCHIVED"] },
  process: (n: number, { record }) => {
    expectTypeOf(record).parameters.toEqualTypeOf<[state: string, details?: unknown]>();
    record("RECEIVED", { n });
  },
});
definePipeline({
  name: "papers",
  ledger: { item: true },
  processChunk: (items: readonly { item: number; index: number }[], { record }) =>
    items.map((item) => {
      // @ts-expect-error it takes one of the call's items first
      record("RECEIVED");
      return succeeded(item.item);
    }),
});
// @ts-expect-error without it there is no ledger of items: it is left out
definePipeline({ name: "papers", ledger: { item: false }, process: (n: number) => n });

// Without a schema the source gives the item's type, and an annotated input its own.
const letters = definePipeline({
  name: "letters",
  source: ({ input }: { input: { path: string } }) => csv<{ name: string }>(input.path),
  process: (contact) => contact.name.length,
});
expectTypeOf(await engine.submit(letters, { path: "contacts.csv" })).toEqualTypeOf<
  BatchHandle<number>
>();
// @ts-expect-error the input is an object with a path
await engine.submit(letters, "contacts.csv");

// Without a source the items themselves are the input.
const squares = definePipeline({ name: "squares", process: (n: number) => n * n });
await engine.submit(squares, [1, 2, 3]);
// @ts-expect-error the items are numbers
await engine.submit(squares, ["one"]);
const open = await engine.open(squares);
expectTypeOf(open).toEqualTypeOf<OpenBatch<number, number>>();
// @ts-expect-error the items are numbers
await open.add(["one"]);

// A schema that converts: items are submitted in its input type and reach the handler in its output
// type.
const dates = definePipeline({
  name: "dates",
  item: z.object({ on: z.string().transform((text) => new Date(text)) }),
  process: ({ on }) => on.getTime(),
});
await engine.submit(dates, [{ on: "2026-01-01" }]);

// `processChunk` returns an outcome for each of its items.
const bulk = definePipeline({
  name: "bulk",
  item: z.object({ id: z.number() }),
  source: () => [{ id: 1 }],
  processChunk: async (items) =>
    items.map(({ item, index, key }) => {
      expectTypeOf(item).toEqualTypeOf<{ id: number }>();
      expectTypeOf(index).toEqualTypeOf<number>();
      expectTypeOf(key).toEqualTypeOf<string | null>();
      return succeeded({ stored: item.id });
    }),
});
for await (const { value } of (await engine.submit(bulk, "")).results()) {
  expectTypeOf(value).toEqualTypeOf<{ stored: number }>();
}

// A handler that returns nothing leaves no result.
const quiet = definePipeline({ name: "quiet", process: async (_item: string) => {} });
expectTypeOf(await engine.submit(quiet, ["a"])).toEqualTypeOf<BatchHandle<void>>();

// A handler can write a checkpoint and gets it when the item runs again.
definePipeline({
  name: "staged",
  async process(_id: string, { checkpoint, lastCheckpoint, drive, final, step }) {
    expectTypeOf(lastCheckpoint).toEqualTypeOf<{
      readonly name: string;
      readonly data: unknown;
    } | null>();
    expectTypeOf(checkpoint("half", { page: 7 })).toEqualTypeOf<Promise<void>>();
    expectTypeOf(drive).toEqualTypeOf<number>();
    expectTypeOf(final).toEqualTypeOf<boolean>();
    expectTypeOf(step).toEqualTypeOf<string>();
    // @ts-expect-error a checkpoint has a name
    await checkpoint();
  },
});

// Several steps: the source of the first decides the input, the handler of the last the result.
const cases = definePipeline({
  name: "cases",
  steps: [
    defineStep({
      name: "documents",
      source: ({ input }: { input: { folder: string } }) => [{ path: input.folder }],
      process: (document) => {
        expectTypeOf(document).toEqualTypeOf<{ path: string }>();
        return { pages: document.path.length };
      },
    }),
    defineStep({
      name: "pages",
      item: z.object({ pages: z.number() }),
      process: ({ pages }, { checkpoint }) => {
        expectTypeOf(pages).toEqualTypeOf<number>();
        expectTypeOf(checkpoint).returns.toEqualTypeOf<Promise<void>>();
        return pages > 3 ? skipped("too long") : succeeded(`${pages} pages`);
      },
    }),
    defineStep({ name: "indexed", waitFor: { count: () => 3, target: async () => 3 } }),
    defineStep({
      name: "relations",
      source: async function* ({ results }) {
        for await (const page of results<string>("pages")) yield page.length;
      },
      processChunk: (items) =>
        items.map(({ item, drive }) => {
          expectTypeOf(item).toEqualTypeOf<number>();
          expectTypeOf(drive).toEqualTypeOf<number>();
          return succeeded({ relation: item });
        }),
    }),
  ],
});
const caseBatch = await engine.submit(cases, { folder: "case-7" });
expectTypeOf(caseBatch).toEqualTypeOf<BatchHandle<{ relation: number }>>();
for await (const { value } of caseBatch.results()) {
  expectTypeOf(value).toEqualTypeOf<{ relation: number }>();
}
// @ts-expect-error the input is that of the first step's source
await engine.submit(cases, "case-7");

// Without a source the items of the first step are the input, in the type of its schema or its
// handler.
const handed = definePipeline({
  name: "handed",
  steps: [
    defineStep({ name: "one", process: (n: number) => `${n}` }),
    defineStep({ name: "two", process: (_text: string) => {} }),
  ],
});
expectTypeOf(await engine.submit(handed, [1, 2])).toEqualTypeOf<BatchHandle<void>>();
// @ts-expect-error the items are numbers
await engine.submit(handed, ["one"]);
const parsed = definePipeline({
  name: "parsed",
  steps: [
    defineStep({
      name: "one",
      item: z.object({ on: z.string().transform((text) => new Date(text)) }),
      process: ({ on }) => on.getTime(),
    }),
  ],
});
await engine.submit(parsed, [{ on: "2026-01-01" }]);
// @ts-expect-error a date is written as text
await engine.submit(parsed, [{ on: 5 }]);

// The results of any step can be read; the caller must state their type.
const handedBatch = await engine.submit(handed, [1]);
for await (const { value } of handedBatch.results("one")) expectTypeOf(value).toBeUnknown();
for await (const { value } of handedBatch.results<string>("one")) {
  expectTypeOf(value).toEqualTypeOf<string>();
}

// The caller must state the type of a CPU task's result, which is then the item's result.
const computed = definePipeline({
  name: "computed",
  cpu: { kind: "threads", size: 2, memoryBytesMax: 268_435_456 },
  process: async (n: number, { cpu }) => {
    expectTypeOf(await cpu("./task.ts", n)).toBeUnknown();
    return cpu<string>(new URL("file:///task.ts"), n, { export: "run", timeLimitMs: 1_000 });
  },
});
expectTypeOf(await engine.submit(computed, [1])).toEqualTypeOf<BatchHandle<string>>();
// @ts-expect-error there are processes and threads
definePipeline({ name: "fibres", cpu: { kind: "fibres" }, process: (n: number) => n });
