/**
 * Runs a pipeline once without faults, and then twice for each of its commits: with the process
 * killed just before it, and just after it. Each time the process is restarted, as a supervisor
 * would do, until the batch has ended; then Sluice's promises are checked, and the user's own.
 */
import { describeError, SluiceError } from "../../core/base/errors.ts";
import type { Engine } from "../../runtime/engine/engine.ts";
import { crash, describeFault, type Fault, type FaultKind, loseAnswer } from "../faults/faults.ts";
import {
  type CheckedKills,
  checkKillOptions,
  type EndedBatch,
  type KillOptions,
  type KillReport,
  refuseRuns,
} from "./kill-options.ts";
import { findBrokenPromises } from "./promises.ts";
import { VirtualWorld } from "../world/virtual-world.ts";

/** The key of the batch: the same key at each start gives the same batch. */
const KEY = "sluice-testing";
const SUBMITTER = "main";
const SUBSCRIBERS_MS_MAX = 3_600_000;
const LINES_SHOWN = 12;

export async function killAtEveryCommit<Context, Input, Result>(
  options: KillOptions<Context, Input, Result>,
): Promise<KillReport> {
  const checked = checkKillOptions(options);
  const first = await new Run(options, checked, null, null).play();
  const { commits } = first;
  const faults = checked.only === null ? listFaults(commits.length, checked) : [checked.only];
  refuseRuns(1 + faults.length, commits.length, checked.runsMax);
  const missed: string[] = [];
  const met: Fault[] = [];
  for (const fault of faults) {
    const run = new Run(options, checked, fault, first);
    const { isMet } = await run.play();
    if (isMet) met.push(fault);
    else if (checked.only === null) missed.push(run.name);
    else throw describeUnmet(fault);
  }
  const count = (...kinds: FaultKind[]): number =>
    met.filter(({ kind }) => kinds.includes(kind)).length;
  const { state, counts } = first.ended;
  return {
    seed: checked.world.seed,
    runs: 1 + faults.length,
    commits,
    kills: count("crash_before", "crash_after"),
    lostAnswers: count("lose_answer"),
    missed,
    state,
    counts,
  };
}

function listFaults(commits: number, { lostAnswers }: CheckedKills): Fault[] {
  return Array.from({ length: commits }, (_, at) => at + 1).flatMap((nth) => [
    crash.before("commit", nth),
    crash.after("commit", nth),
    ...(lostAnswers ? [loseAnswer("commit", nth)] : []),
  ]);
}

interface Played<Result> {
  readonly ended: EndedBatch<Result>;
  /** Up to the batch's end. */
  readonly commits: readonly string[];
  /** Its fault has happened. */
  readonly isMet: boolean;
}

class Run<Context, Input, Result> {
  readonly #options: KillOptions<Context, Input, Result>;
  readonly #checked: CheckedKills;
  readonly #fault: Fault | null;
  /** The run without faults; null for that run itself. */
  readonly #first: Played<Result> | null;
  readonly #world: VirtualWorld;

  constructor(
    options: KillOptions<Context, Input, Result>,
    checked: CheckedKills,
    fault: Fault | null,
    first: Played<Result> | null,
  ) {
    this.#options = options;
    this.#checked = checked;
    this.#fault = fault;
    this.#first = first;
    this.#world = new VirtualWorld({ ...checked.world, faults: fault === null ? [] : [fault] });
  }

  /** The fault of this run: `killed after commit 7 (settle)`. */
  get name(): string {
    const fault = this.#fault;
    if (fault === null) return "without any fault";
    if (fault.point !== "commit") return `with ${describeFault(fault)}`;
    const what = this.#first?.commits[fault.nth - 1];
    const commit = `commit ${fault.nth}${what === undefined ? "" : ` (${what})`}`;
    switch (fault.kind) {
      case "crash_before":
        return `killed before ${commit}`;
      case "crash_after":
        return `killed after ${commit}`;
      case "lose_answer":
        return `with the answer to ${commit} lost`;
      default:
        return `with ${describeFault(fault)}`;
    }
  }

  async play(): Promise<Played<Result>> {
    const { setUp, tearDown } = this.#options;
    try {
      const context = await setUp(this.#world);
      try {
        return await this.#play(context);
      } finally {
        await tearDown?.(context);
      }
    } finally {
      // A second time if nothing was played: nothing of a world may be left.
      await this.#world.end();
    }
  }

  async #play(context: Context): Promise<Played<Result>> {
    const world = this.#world;
    let ended: EndedBatch<Result>;
    let commits: readonly string[];
    try {
      try {
        ended = await world.play(this.#live(context));
        commits = [...world.commits];
      } finally {
        await world.end();
      }
    } catch (error) {
      throw this.#describe(describeError(error).message, { cause: error });
    }
    const [broken] = await findBrokenPromises(world.store, ended.batch);
    if (broken !== undefined) {
      throw this.#describe(broken, { hint: "This is a bug in Sluice: please report it." });
    }
    this.#compare(ended);
    try {
      await this.#options.check?.(context, ended);
    } catch (error) {
      throw this.#describe(describeError(error).message, {
        cause: error,
        hint: "A handler may run more than once for one item: make its effect idempotent, for example with the idempotencyKey of its context.",
      });
    }
    return { ended, commits, isMet: world.faultsLeft.length === 0 };
  }

  async #live(context: Context): Promise<EndedBatch<Result>> {
    const { processes } = this.#checked;
    const workers = Array.from({ length: processes - 1 }, (_, at) =>
      this.#world.start(`helper-${at + 1}`, async (engine) => {
        await this.#options.onStart?.(engine, context);
        engine.work(this.#options.batch(context).pipeline);
      }),
    );
    const main = this.#world.start(SUBMITTER, (engine) => this.#submit(engine, context));
    const outcome = await Promise.race([main.done, ...workers.map(failed)]);
    const starts = [main, ...workers].reduce((sum, { lives }) => sum + lives, 0);
    return { ...outcome, starts };
  }

  /** What the submitter does from its start on, in each of its lives. */
  async #submit(engine: Engine, context: Context): Promise<Omit<EndedBatch<Result>, "starts">> {
    await this.#options.onStart?.(engine, context);
    const { pipeline, input, ...options } = this.#options.batch(context);
    const handle = await engine.submit(pipeline, input, { key: KEY, ...options });
    const { batch, state, counts } = await handle.wait();
    await engine.waitForSubscribers({ withinMs: SUBSCRIBERS_MS_MAX });
    const results = await collect(handle.results());
    const deadLetters = await collect(handle.deadLetters());
    const fault = this.#fault === null ? null : this.name;
    const { history } = this.#world;
    return { batch, state, counts, results, deadLetters, fault, history };
  }

  /** A handler that cannot be repeated may fail the second time. */
  #compare(ended: EndedBatch<Result>): void {
    if (this.#first === null || !this.#checked.sameEnding) return;
    const [now, then] = [describeEnding(ended), describeEnding(this.#first.ended)];
    if (now === then) return;
    const [letter] = ended.deadLetters;
    const why =
      letter === undefined ? "" : `; item ${letter.item}: ${letter.code}: ${letter.message}`;
    throw this.#describe(`it ended ${now}, and without a fault it ends ${then}${why}`, {
      hint: "A handler may run more than once for one item, and must not fail over what it did before. If the two may differ, set sameEnding: false.",
    });
  }

  #describe(
    problem: string,
    details: { readonly hint?: string; readonly cause?: unknown },
  ): SluiceError {
    const fault = this.#fault;
    const { seed } = this.#checked.world;
    const repeat =
      fault === null
        ? `seed ${seed}`
        : `repeat just this run with seed: ${seed}, only: ${describeFault(fault)}`;
    const lines = this.#world.history.slice(-LINES_SHOWN).map((line) => `\n  ${line}`);
    const message = `${this.name}: ${problem}\n${repeat}\nwhat happened last:${lines.join("")}`;
    return new SluiceError("RUN_FAILED", message, details);
  }
}

/** Settles only when it failed. */
async function failed(process: { readonly done: Promise<unknown> }): Promise<never> {
  await process.done;
  return Promise.withResolvers<never>().promise;
}

async function collect<Row>(rows: AsyncIterable<Row>): Promise<Row[]> {
  const all: Row[] = [];
  for await (const row of rows) all.push(row);
  return all;
}

function describeEnding({ state, counts }: EndedBatch): string {
  return `${state} ${JSON.stringify(counts)}`;
}

function describeUnmet(fault: Fault): SluiceError {
  return new SluiceError("FAULT_NOT_REACHED", `the run never reached ${describeFault(fault)}`, {
    hint: "Check that the pipeline, the input and the seed are the same.",
  });
}
