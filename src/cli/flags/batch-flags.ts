/** The options that describe a batch for `run` and `submit`, and how they are read. */
import { type Command, Option } from "commander";
import { SluiceError } from "../../core/base/errors.ts";
import type { SubmitOptions } from "../../runtime/engine/engine.ts";
import type { Pipeline } from "../../runtime/pipeline/pipeline.ts";
import type { Step } from "../../runtime/pipeline/step.ts";
import { CHUNK_SIZE_MAX, CONCURRENCY_MAX } from "../../runtime/pipeline/step-check.ts";
import type { CommonFlags } from "../config/common-flags.ts";
import { type NumberFlag, readNumber } from "../config/config.ts";
import { looksLikeDuration, parseDuration } from "../config/parse-duration.ts";

export interface BatchFlags extends CommonFlags {
  readonly input?: string;
  readonly inputJson?: string;
  readonly key?: string;
  readonly lane?: string;
  readonly strict?: boolean;
  readonly deadline?: string;
  readonly chunkSize?: string;
  readonly concurrency?: string;
}

export function addBatchFlags(command: Command): Command {
  return command
    .option("--input <text>", "input of the pipeline's source: a path, a URL, a name")
    .addOption(new Option("--input-json <json>", "the same as JSON").conflicts("input"))
    .option("--key <key>", "key of the batch: the same key gives the same batch")
    .option("--lane <name>", "lane of the batch (default: the pipeline's name)")
    .option("--strict", "check all items first; refuse the batch if one is bad")
    .option("--deadline <when>", "expire after a duration (2h) or at a time (ISO 8601)")
    .option("--chunk-size <n>", `items per chunk, 1 to ${CHUNK_SIZE_MAX}`);
}

export function addConcurrencyFlag(command: Command): Command {
  return command.option(
    "--concurrency <n>",
    `maximum concurrent handler calls in this process, 1 to ${CONCURRENCY_MAX}`,
  );
}

/** For `loadConfig`, which reports them together with all other problems. */
export function listNumberFlags({ chunkSize, concurrency }: BatchFlags): NumberFlag[] {
  return [
    { name: "--chunk-size", given: chunkSize, max: CHUNK_SIZE_MAX },
    { name: "--concurrency", given: concurrency, max: CONCURRENCY_MAX },
  ];
}

/** The pipeline with the settings of the command line. */
export function adjustPipeline(pipeline: Pipeline, flags: BatchFlags): Pipeline {
  const chunkSize = readNumber(flags.chunkSize);
  const concurrency = readNumber(flags.concurrency);
  const [first, ...rest] = pipeline.steps.map((step) => ({
    ...step,
    ...(chunkSize === undefined || step.waits ? {} : { chunkSize }),
    ...(concurrency === undefined ? {} : { concurrency }),
  })) as [Step, ...Step[]];
  return { ...pipeline, steps: [first, ...rest] };
}

export function readSubmitOptions(
  { key, lane, strict, deadline }: BatchFlags,
  wallMs: number,
): SubmitOptions {
  return {
    resume: true,
    ...(deadline === undefined ? {} : { deadline: readDeadline(deadline, wallMs) }),
    ...(key === undefined ? {} : { key }),
    ...(lane === undefined ? {} : { lane }),
    ...(strict === undefined ? {} : { strict }),
  };
}

export function readInput({ steps, name }: Pipeline, { input, inputJson }: BatchFlags): unknown {
  const { source } = steps[0];
  if (source === null) {
    throw new SluiceError(
      "NO_SOURCE",
      `the pipeline ${name} has no source, so the command line cannot give it items`,
      {
        hint: "Add source: ({ input }) => jsonl(input) to it, or submit its items from a program.",
      },
    );
  }
  if (input !== undefined) return input;
  if (inputJson !== undefined) return parseInput(inputJson);
  // A source without parameters needs no input.
  if (source.length === 0) return null;
  throw new SluiceError("BAD_INPUT", `the pipeline ${name} needs an input`, {
    hint: "Give it with --input <text>, or with --input-json <json>; `--input-json null` for none.",
  });
}

const INSTANT = /^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?(Z|[+-]\d\d:?\d\d)?$/;

function readDeadline(text: string, wallMs: number): Date {
  const refuse = (problem: string): SluiceError =>
    new SluiceError("BAD_OPTION", `--deadline ${JSON.stringify(text)} ${problem}`, {
      field: "deadline",
      hint: "Give a time in the future, for example 90m, 12h, 2d or 2030-01-31T18:00:00Z.",
    });
  if (looksLikeDuration(text)) {
    if (text.trim().startsWith("-")) throw refuse("has passed");
    const ms = parseDuration("--deadline", text);
    if (ms === 0) throw refuse("is now");
    return new Date(wallMs + ms);
  }
  const at = INSTANT.test(text) ? new Date(text) : new Date(Number.NaN);
  if (Number.isNaN(at.getTime())) throw refuse("is neither a duration nor a time");
  if (at.getTime() <= wallMs) throw refuse("has passed");
  return at;
}

function parseInput(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    throw new SluiceError("BAD_INPUT", `--input-json is not JSON: ${(cause as Error).message}`, {
      hint: `Quote it for the shell, for example: --input-json '{"site": 12}'`,
      cause,
    });
  }
}
