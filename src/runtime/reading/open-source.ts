/** Makes a step's source from a batch's recorded input and from the results of earlier steps. */
import { describeError, SluiceError } from "../../core/base/errors.ts";
import { formatDidYouMean, findSimilar } from "../../core/base/similar-words.ts";
import type { BatchSnapshot } from "../../ports/store/conductor-store.ts";
import type { Source, SourceLike } from "../../ports/source.ts";
import type { Store } from "../../ports/store/store.ts";
import type { SourceContext } from "../pipeline/contexts.ts";
import type { Step } from "../pipeline/step.ts";

const PAGE = 1_000;

export function openSource(step: Step, batch: BatchSnapshot, store: Store): SourceLike<unknown> {
  const context = describeContext(step, batch, store);
  if (step.source === null) {
    if (step.carriesFrom !== null) return context.results();
    throw new SluiceError(
      "NO_SOURCE",
      `the step ${step.name} has no source, but the batch was submitted with an input`,
      { hint: "Add source: ({ input }) => ... to it." },
    );
  }
  let source: unknown;
  try {
    source = step.source(context);
  } catch (error) {
    if (error instanceof SluiceError) throw error;
    throw new SluiceError("SOURCE_FAILED", `the source threw: ${describeError(error).message}`, {
      hint: "Look at the pipeline's source function.",
      cause: error,
    });
  }
  if (isSource(source) || isIterable(source)) return source;
  throw new SluiceError(
    "BAD_FUNCTION_RESULT",
    `the source of ${step.name} returned ${source === null ? "null" : `a ${typeof source}`}`,
    {
      field: "source",
      hint: "Return jsonl(...), csv(...), an array, or any iterable or async iterable.",
    },
  );
}

function describeContext(step: Step, batch: BatchSnapshot, store: Store): SourceContext<unknown> {
  const { id, lane, settings, input } = batch;
  const names = settings.steps.map(({ name }) => name);
  return {
    input: input === null ? null : (JSON.parse(input) as unknown),
    batch: id,
    lane,
    results: <Result>(name?: string) => {
      const before = step.carriesFrom ?? step.number - 1;
      const from = name === undefined ? before : names.indexOf(name);
      if (from < 0 || from >= step.number) throw unknownStep(step, name, names);
      return readAllResults<Result>(store, batch, from, step.carriesFrom !== null);
    },
  };
}

/** After a reopening a carrying step gets only the results that are new. */
async function* readAllResults<Result>(
  store: Store,
  { id, sinceDrive }: BatchSnapshot,
  step: number,
  carries: boolean,
): AsyncGenerator<Result, void, void> {
  const since = carries ? sinceDrive : 1;
  for (let afterItem = -1; ; ) {
    const page = await store.readResults(id, { step, afterItem, limit: PAGE, sinceDrive: since });
    for (const { value } of page) yield JSON.parse(value) as Result;
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE) return;
    afterItem = last.item;
  }
}

function unknownStep(step: Step, name: string | undefined, names: readonly string[]): SluiceError {
  const before = names.slice(0, step.number);
  const question = name === undefined ? "" : formatDidYouMean(findSimilar(name, before));
  return new SluiceError(
    "NOT_FOUND",
    `the step ${step.name} uses the results of ${name ?? "the step before"}, which is not a step before it`,
    {
      kind: "step",
      hint: question === "" ? `Steps before it: ${before.join(", ") || "none"}.` : question,
    },
  );
}

/** Whether it can be read again in pieces; otherwise it is an iterable, to be frozen. */
export function isSource(source: unknown): source is Source {
  return (
    typeof source === "object" &&
    source !== null &&
    "slice" in source &&
    "read" in source &&
    "kind" in source &&
    typeof source.kind === "string"
  );
}

export function isIterable(value: unknown): value is Iterable<unknown> | AsyncIterable<unknown> {
  return (
    typeof value === "object" &&
    value !== null &&
    (Symbol.iterator in value || Symbol.asyncIterator in value)
  );
}
