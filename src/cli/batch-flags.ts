/** The options by which `run` and `submit` describe a batch, and what they make of them. */
import { type Command, Option } from "commander";
import { SluiceError } from "../core/errors.ts";
import type { SubmitOptions } from "../runtime/engine.ts";
import type { Pipeline } from "../runtime/pipeline.ts";
import { CHUNK_SIZE_MAX, CONCURRENCY_MAX } from "../runtime/pipeline-check.ts";
import type { CommonFlags } from "./common-flags.ts";
import { type NumberFlag, readNumber } from "./config.ts";

export interface BatchFlags extends CommonFlags {
  readonly input?: string;
  readonly inputJson?: string;
  readonly key?: string;
  readonly lane?: string;
  readonly strict?: boolean;
  readonly chunkSize?: string;
  readonly concurrency?: string;
}

export function addBatchFlags(command: Command): Command {
  return command
    .option(
      "--input <text>",
      "what the pipeline's source is given, as it is: a path, a URL, a name",
    )
    .addOption(new Option("--input-json <json>", "the same, read as JSON").conflicts("input"))
    .option("--key <key>", "names the batch: the same key twice gives the same batch")
    .option("--lane <lane>", "whose batch it is (default: the pipeline's name)")
    .option("--strict", "check every item before anything runs; refuse the batch if one is bad")
    .option("--chunk-size <n>", `items in a chunk, 1 to ${CHUNK_SIZE_MAX}`);
}

export function addConcurrencyFlag(command: Command): Command {
  return command.option(
    "--concurrency <n>",
    `handler calls at once in this process, 1 to ${CONCURRENCY_MAX}`,
  );
}

/** For `loadConfig`, which reports them with everything else that is wrong. */
export function listNumberFlags({ chunkSize, concurrency }: BatchFlags): NumberFlag[] {
  return [
    { name: "--chunk-size", given: chunkSize, max: CHUNK_SIZE_MAX },
    { name: "--concurrency", given: concurrency, max: CONCURRENCY_MAX },
  ];
}

/** The pipeline with what the command line says about it. */
export function adjustPipeline(pipeline: Pipeline, flags: BatchFlags): Pipeline {
  return {
    ...pipeline,
    chunkSize: readNumber(flags.chunkSize) ?? pipeline.chunkSize,
    concurrency: readNumber(flags.concurrency) ?? pipeline.concurrency,
  };
}

export function readSubmitOptions({ key, lane, strict }: BatchFlags): SubmitOptions {
  return {
    resume: true,
    ...(key === undefined ? {} : { key }),
    ...(lane === undefined ? {} : { lane }),
    ...(strict === undefined ? {} : { strict }),
  };
}

export function readInput({ source, name }: Pipeline, { input, inputJson }: BatchFlags): unknown {
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
  // A source that asks for nothing needs no input.
  if (source.length === 0) return null;
  throw new SluiceError("INPUT_MISSING", `the pipeline ${name} needs an input`, {
    hint: "Give it with --input <text>, or with --input-json <json>; `--input-json null` for none.",
  });
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
