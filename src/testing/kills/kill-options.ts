/** The options and the result of a run with a kill at every commit. */
import type { BatchState } from "../../core/batch/batch.ts";
import type { Counts } from "../../core/batch/counts.ts";
import { SluiceError } from "../../core/base/errors.ts";
import { OptionProblems } from "../../core/events/option-problems.ts";
import type { DeadLetter } from "../../ports/store/query-store.ts";
import type { ItemResult } from "../../runtime/engine/batch-handle.ts";
import type { Engine, SubmitOptions } from "../../runtime/engine/engine.ts";
import type { Pipeline } from "../../runtime/pipeline/pipeline.ts";
import { type Fault, isFault } from "../faults/faults.ts";
import type { World, WorldOptions } from "../world/world.ts";
import {
  type CheckedWorld,
  readWorldOptions,
  throwProblems,
  WORLD_OPTIONS,
} from "../world/world-options.ts";

/** What is submitted, with the options of a submit. */
export interface BatchToRun<Input, Result> extends SubmitOptions {
  readonly pipeline: Pipeline<unknown, Input, Result>;
  readonly input: NoInfer<Input>;
}

/** The batch after a run. */
export interface EndedBatch<Result = unknown> {
  readonly batch: string;
  readonly state: BatchState;
  readonly counts: Counts;
  /** Results of its last step, in item order. */
  readonly results: readonly ItemResult<Result>[];
  readonly deadLetters: readonly DeadLetter[];
  /** The fault of this run: `killed after commit 7 (settle)`; null in the first one. */
  readonly fault: string | null;
  /** How often processes were started, in total. */
  readonly starts: number;
  /** What happened, line by line. */
  readonly history: readonly string[];
}

export interface KillOptions<Context, Input, Result> extends Omit<WorldOptions, "faults"> {
  /**
   * Makes what a run begins with, newly for each run: a bank that counts its charges, a folder. It
   * is passed to the other functions. Anything that outlives it would carry effects of one run into
   * the next.
   */
  readonly setUp: (world: World) => Context | PromiseLike<Context>;
  /** What each process works on; called at each start, and submitted under the same key. */
  readonly batch: (context: Context) => BatchToRun<Input, Result>;
  /** Checks what the handlers did, after each run, and throws if it is wrong. */
  readonly check?: (context: Context, ended: EndedBatch<Result>) => void | PromiseLike<void>;
  /** Called after each run. */
  readonly tearDown?: (context: Context) => void | PromiseLike<void>;
  /** Called at each start of a process, before it works: for subscribers. */
  readonly onStart?: (engine: Engine, context: Context) => void | PromiseLike<void>;
  /** Processes that work on the batch, including the one that submits it. Default 1. */
  readonly processes?: number;
  /** Also lose the answer to every commit. Default false. */
  readonly lostAnswers?: boolean;
  /**
   * Whether each run must end in the same state with the same counts as the first. Default true.
   */
  readonly sameEnding?: boolean;
  /** More runs than this are refused. Default 1,000. */
  readonly runsMax?: number;
  /** Only this fault, to repeat one run of many. */
  readonly only?: Fault;
}

export interface KillReport {
  readonly seed: number;
  /** Including the first, without a fault. */
  readonly runs: number;
  /** The commits of the first run, in words. */
  readonly commits: readonly string[];
  /** Kills that happened. */
  readonly kills: number;
  /** Answers that were lost. */
  readonly lostAnswers: number;
  /** Faults that did not happen in their run: handlers with real I/O can end in another order. */
  readonly missed: readonly string[];
  /** How the batch ended in the first run. */
  readonly state: BatchState;
  readonly counts: Counts;
}

export interface CheckedKills {
  readonly world: CheckedWorld;
  readonly processes: number;
  readonly lostAnswers: boolean;
  readonly sameEnding: boolean;
  readonly runsMax: number;
  readonly only: Fault | null;
}

const FUNCTIONS = ["setUp", "batch", "check", "tearDown", "onStart"];
const REQUIRED = ["setUp", "batch"];
const OWN_OPTIONS = [...FUNCTIONS, "processes", "lostAnswers", "sameEnding", "runsMax", "only"];
const PROCESSES_MAX = 16;
const RUNS_MAX = 1_000_000;
const DEFAULT_RUNS_MAX = 1_000;

export function checkKillOptions(options: object): CheckedKills {
  const problems = new OptionProblems();
  const known = [...OWN_OPTIONS, ...WORLD_OPTIONS.filter((name) => name !== "faults")];
  const given = problems.readOptions(options, known);
  for (const name of FUNCTIONS) {
    const isMissing = given[name] === undefined && REQUIRED.includes(name);
    if (isMissing) problems.add(`${name} is missing`);
    else if (given[name] !== undefined && typeof given[name] !== "function") {
      problems.add(`${name} must be a function`);
    }
  }
  const only = given["only"] ?? null;
  if (only !== null && !isFault(only)) {
    problems.add('only must be a fault, for example crash.after("commit", 7)');
  }
  const whole = (name: string, max: number, fallback: number): number =>
    problems.readWhole(name, given[name], { min: 1, max, fallback });
  const checked = {
    world: readWorldOptions({ ...given, faults: [] }, problems),
    processes: whole("processes", PROCESSES_MAX, 1),
    lostAnswers: problems.readFlag("lostAnswers", given["lostAnswers"], false),
    sameEnding: problems.readFlag("sameEnding", given["sameEnding"], true),
    runsMax: whole("runsMax", RUNS_MAX, DEFAULT_RUNS_MAX),
    only: only as Fault | null,
  };
  throwProblems(problems, "killAtEveryCommit");
  return checked;
}

export function refuseRuns(runs: number, commits: number, runsMax: number): void {
  if (runs <= runsMax) return;
  throw new SluiceError(
    "BAD_OPTION",
    `the batch has ${commits} commits, which make ${runs} runs: more than runsMax, ${runsMax}`,
    { field: "runsMax", hint: "Take fewer items for this test, or raise runsMax." },
  );
}
