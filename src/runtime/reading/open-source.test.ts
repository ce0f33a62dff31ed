import { describe, expect, test } from "vitest";
import { SluiceError } from "../../core/base/errors.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";
import type { ResultPage } from "../../ports/store/query-store.ts";
import type { Store } from "../../ports/store/store.ts";
import type { SourceContext } from "../pipeline/contexts.ts";
import { openSource } from "./open-source.ts";
import { definePipeline, type Pipeline } from "../pipeline/pipeline.ts";
import type { Step } from "../pipeline/step.ts";

const define = definePipeline as unknown as (options: object) => Pipeline;
const process = (): void => undefined;

/** Three steps, the last one with this source. */
function makeSteps(source?: (context: SourceContext<unknown>) => unknown): readonly Step[] {
  return define({
    name: "p",
    steps: [
      { name: "fetch", source: () => [], process },
      { name: "parse", process },
      { name: "index", process, ...(source === undefined ? {} : { source }) },
    ],
  }).steps;
}

function makeBatch(steps: readonly Step[], changes: Partial<BatchSnapshot> = {}): BatchSnapshot {
  const settings = { strict: false, steps: steps.map(({ name }) => ({ name })) };
  const facts = { id: "b-1", lane: "north", input: '{"file":"a"}', settings, sinceDrive: 1 };
  return { ...facts, ...changes } as unknown as BatchSnapshot;
}

/** A store whose steps have this many results; it remembers the requested pages. */
function makeStore(results: number) {
  const pages: ResultPage[] = [];
  const readResults = async (_batch: string, page: ResultPage) => {
    pages.push(page);
    const { step, afterItem, limit } = page;
    const left = Math.max(0, Math.min(limit, results - afterItem - 1));
    return Array.from({ length: left }, (_, at) => {
      const item = afterItem + 1 + at;
      return { step, item, key: null, value: JSON.stringify({ step, item }) };
    });
  };
  return { pages, store: { readResults } as unknown as Store };
}

async function readAll(source: unknown): Promise<unknown[]> {
  const items: unknown[] = [];
  for await (const item of source as AsyncIterable<unknown>) items.push(item);
  return items;
}

function refuse(act: () => unknown): SluiceError {
  try {
    act();
  } catch (error) {
    if (error instanceof SluiceError) return error;
    throw error;
  }
  throw new Error("it was accepted");
}

describe("the source of a step", () => {
  test("gets its batch, its lane and the batch's input", () => {
    let told: SourceContext<unknown> | null = null;
    const steps = makeSteps((context) => {
      told = context;
      return [];
    });
    openSource(steps[2] as Step, makeBatch(steps), makeStore(0).store);
    expect(told).toMatchObject({ batch: "b-1", lane: "north", input: { file: "a" } });
    openSource(steps[2] as Step, makeBatch(steps, { input: null }), makeStore(0).store);
    expect(told).toMatchObject({ input: null });
  });

  test("defaults to the results of the previous step, page by page and in order", async () => {
    const steps = makeSteps();
    const { pages, store } = makeStore(2_345);
    const items = await readAll(openSource(steps[1] as Step, makeBatch(steps), store));
    expect(items).toHaveLength(2_345);
    expect(items[1_234]).toEqual({ step: 0, item: 1_234 });
    expect(pages.map(({ step, afterItem }) => [step, afterItem])).toEqual([
      [0, -1],
      [0, 999],
      [0, 1_999],
    ]);
  });

  test("that ends with a full page asks once more", async () => {
    const steps = makeSteps();
    const { pages, store } = makeStore(1_000);
    expect(await readAll(openSource(steps[1] as Step, makeBatch(steps), store))).toHaveLength(
      1_000,
    );
    expect(pages).toHaveLength(2);
  });

  test("of a carrying step gets only new results, and any other gets all", async () => {
    const { pages, store } = makeStore(1);
    const steps = makeSteps(({ results }) => results());
    const reopened = makeBatch(steps, { sinceDrive: 4 });
    await readAll(openSource(steps[1] as Step, reopened, store));
    await readAll(openSource(steps[2] as Step, reopened, store));
    expect(pages.map(({ step, sinceDrive }) => [step, sinceDrive])).toEqual([
      [0, 4],
      [1, 1],
    ]);
  });

  test("can ask for the results of any step before it by name", async () => {
    const { pages, store } = makeStore(1);
    const steps = makeSteps(({ results }) => results("fetch"));
    expect(await readAll(openSource(steps[2] as Step, makeBatch(steps), store))).toEqual([
      { step: 0, item: 0 },
    ]);
    expect(pages).toHaveLength(1);
  });

  test.each([
    ["fetsch", "Did you mean fetch?"],
    ["nothing-like-it", "Steps before it: fetch, parse."],
    ["index", "Steps before it: fetch, parse."],
  ])("cannot request %s, which is not an earlier step", (name, hint) => {
    const steps = makeSteps(({ results }) => results(name));
    const error = refuse(() => openSource(steps[2] as Step, makeBatch(steps), makeStore(0).store));
    expect(error).toMatchObject({ code: "NOT_FOUND", kind: "step", hint });
    expect(error.message).toContain(`uses the results of ${name}`);
  });

  test("of the first step has no earlier results", () => {
    const [first] = define({
      name: "p",
      source: ({ results }: SourceContext<unknown>) => results(),
      process,
    }).steps;
    const error = refuse(() => openSource(first, makeBatch([first]), makeStore(0).store));
    expect(error).toMatchObject({
      code: "NOT_FOUND",
      kind: "step",
      hint: "Steps before it: none.",
    });
  });

  test("is required for a batch with an input", () => {
    const [first] = define({ name: "p", process }).steps;
    const error = refuse(() => openSource(first, makeBatch([first]), makeStore(0).store));
    expect(error).toMatchObject({ code: "NO_SOURCE" });
  });

  test("that throws or returns nothing readable is refused with the reason", () => {
    const steps = makeSteps(() => {
      throw new Error("no such file");
    });
    const thrown = refuse(() => openSource(steps[2] as Step, makeBatch(steps), makeStore(0).store));
    expect(thrown).toMatchObject({ code: "SOURCE_FAILED" });
    expect(thrown.message).toContain("no such file");
    for (const bad of [null, undefined, 5, "text", {}]) {
      const odd = makeSteps(() => bad);
      const open = (): unknown => openSource(odd[2] as Step, makeBatch(odd), makeStore(0).store);
      expect(refuse(open)).toMatchObject({ code: "BAD_FUNCTION_RESULT", field: "source" });
    }
  });
});
