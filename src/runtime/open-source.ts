/** Makes a pipeline's source from a batch's recorded input. */
import { describeError, SluiceError } from "../core/errors.ts";
import type { Source, SourceLike } from "../ports/source.ts";
import type { Pipeline } from "./pipeline.ts";

export function openSource(pipeline: Pipeline, input: string): SourceLike<unknown> {
  if (pipeline.source === null) {
    throw new SluiceError(
      "NO_SOURCE",
      `the pipeline ${pipeline.name} has no source, but the batch was submitted with an input`,
      { hint: "Add source: ({ input }) => ... to the pipeline." },
    );
  }
  let source: unknown;
  try {
    source = pipeline.source({ input: JSON.parse(input) as unknown });
  } catch (error) {
    if (error instanceof SluiceError) throw error;
    throw new SluiceError("SOURCE_FAILED", `the source threw: ${describeError(error).message}`, {
      hint: "Look at the pipeline's source function.",
      cause: error,
    });
  }
  if (isSource(source) || isIterable(source)) return source;
  throw new SluiceError(
    "BAD_SOURCE",
    `the source of pipeline ${pipeline.name} returned ${source === null ? "null" : `a ${typeof source}`}`,
    { hint: "Return jsonl(...), csv(...), an array, or any iterable or async iterable." },
  );
}

/** Whether it can be read again in pieces; if not it is an iterable, to be frozen. */
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
