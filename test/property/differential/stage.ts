/**
 * The actors on the stores and their knowledge: enough that most calls make sense; the others come
 * too late or concern the wrong batch. It reads the reference model for that: cheap, but only a
 * test may do so.
 */
import fc from "fast-check";
import { isEnded } from "../../../src/core/batch/batch.ts";
import { type Batch, currentStep } from "../../../src/adapters/memory/state.ts";
import { listDue, mayRun } from "../../../src/adapters/memory/leasing.ts";
import type { PlanPart } from "../../../src/ports/store/conductor-store.ts";
import {
  type LeaseRequest,
  nameLease,
  type Report,
} from "../../../src/ports/store/worker-store.ts";
import type { ManualClock } from "../../support/manual-clock.ts";
import { type Held, SimulatedWorker } from "../simulated-worker.ts";
import type { Lineup } from "./lineup.ts";
import { composeReport, type Deeds } from "./reports.ts";

export const LANES = ["a", "b", "c"] as const;
export const PIPELINES = ["p", "q"] as const;
export const VERSIONS = ["1", "2"] as const;
export const READERS = ["mail", "hook"] as const;
export const TOPICS = ["t1", "t2"] as const;
/** Readers of topics. */
export const GROUPS = ["t1#a", "t1#b", "t2#a"] as const;
const WORKERS = 3;
const UNFINISHED_MAX = 4;
const BATCHES_MAX = 10;
const FOR_GOOD_MS = 10 ** 9;
/** An id that no batch ever has. */
const UNKNOWN = "b-unknown";

/** A batch for which an act makes sense, or any, or none. */
export interface Target {
  readonly nth: number;
  readonly any: boolean;
  readonly unknown: boolean;
}

/** There is no batch for which the act makes sense. */
class NothingToDo extends Error {}

export class Stage {
  readonly clock: ManualClock;
  readonly lineup: Lineup;
  readonly workers: SimulatedWorker[] = [];
  /** Parts of plans that were sent, and may be sent again. */
  readonly parts: PlanPart[] = [];
  /** The claims under each lease, by its name. */
  readonly claims = new Map<string, Map<number, string>>();
  /** Every id that a batch ever had. */
  readonly ids: string[] = [];

  /** Everything is compared after this number of commands: comparing is expensive. */
  readonly #looksEvery: number;
  #played = 0;

  constructor(clock: ManualClock, lineup: Lineup, looksEvery: number) {
    this.clock = clock;
    this.lineup = lineup;
    this.#looksEvery = looksEvery;
  }

  async look(): Promise<void> {
    this.#played += 1;
    if (this.#played % this.#looksEvery === 0) await this.compareStates();
    else await this.lineup.compareOutlines();
  }

  /** Workers that stay alive until a heartbeat says otherwise. */
  async begin(): Promise<void> {
    for (let n = 0; n < WORKERS; n++) await this.hire();
    await this.lineup.call("beat", 1, SERVED, FOR_GOOD_MS);
  }

  async hire(): Promise<void> {
    const number = await this.lineup.call("registerWorker", { name: "worker" });
    this.workers.push(new SimulatedWorker(number ?? 0));
  }

  worker(nth: number): SimulatedWorker {
    return this.workers[nth % this.workers.length]!;
  }

  get hasRoom(): boolean {
    const unfinished = this.listBatches(isUnfinished).length;
    return unfinished < UNFINISHED_MAX && this.listBatches().length < BATCHES_MAX;
  }

  listBatches(wish: (batch: Batch) => boolean = () => true): Batch[] {
    return [...this.lineup.reference.state.batches.values()].filter(wish);
  }

  find(id: string): Batch | undefined {
    return this.lineup.reference.state.batches.get(id);
  }

  /**
   * The id of a suitable batch, or of any one if the target says so. Without one, nothing is done.
   */
  choose({ nth, any, unknown }: Target, wish: (batch: Batch) => boolean): string {
    const from = this.listBatches(any ? undefined : wish);
    if (unknown) return UNKNOWN;
    if (from.length === 0) throw new NothingToDo();
    return from[nth % from.length]!.submission.id;
  }

  /** A worker's report on a chunk that it holds. */
  report(held: Held, drawn: Deeds): Report {
    const claimed = this.claims.get(nameLease(held.lease));
    return composeReport(held, drawn, this.clock.monotonicMs(), claimed);
  }

  /** Whether something of it could be leased now. */
  readonly hasDueWork = (batch: Batch): boolean => {
    const now = this.clock.monotonicMs();
    return (
      mayRun(this.lineup.reference.state, batch) && listDue(currentStep(batch), now).length > 0
    );
  };

  /** A lease request that matches a batch. */
  requestOf(id: string, worker: number, limits: LeaseLimits): LeaseRequest {
    const batch = this.find(id);
    const { pipeline, version } = batch?.submission ?? { pipeline: "p", version: "1" };
    const { only, ...rest } = limits;
    const step = batch?.step ?? 0;
    const asked = { worker, pipeline, versions: [version], step, keeps: [] };
    return { ...asked, batch: only ? id : null, ...rest };
  }

  /** The scopes of which a worker holds slots. */
  listPermits(worker: number): string[] {
    return [...this.lineup.reference.state.permits.values()]
      .filter((row) => row.worker === worker)
      .map(({ scope }) => scope);
  }

  async compareStates(): Promise<void> {
    await this.lineup.compareStates({ readers: [...READERS, ...GROUPS], gone: this.ids });
  }
}

export interface LeaseLimits {
  readonly only: boolean;
  readonly itemsMax: number;
  readonly chunksMax: number;
  readonly leaseMs: number;
  readonly slots: number;
}

const SERVED = PIPELINES.flatMap((pipeline) => VERSIONS.map((version) => ({ pipeline, version })));

export const isUnsliced = ({ state }: Batch): boolean =>
  state === "submitted" || state === "slicing";
export const isRunning = ({ state }: Batch): boolean => state === "running";
export const isUnfinished = ({ state }: Batch): boolean => !isEnded(state);
export const isOver = ({ state }: Batch): boolean => isEnded(state);
export const hasLetters = ({ steps }: Batch): boolean =>
  steps.some(({ counts }) => counts.failed > 0);

export type Command = fc.AsyncCommand<Stage, object>;

/** Small arguments that fast-check can draw, print and shrink. */
export function command<Args>(
  name: string,
  args: fc.Arbitrary<Args>,
  run: (stage: Stage, args: Args) => Promise<unknown>,
  needs: "batch" | "room" | "nothing" = "batch",
): fc.Arbitrary<Command> {
  return args.map((drawn) => ({
    check: (stage) =>
      needs === "room"
        ? stage.hasRoom
        : needs === "nothing" || stage.lineup.reference.state.batches.size > 0,
    run: async (stage) => {
      try {
        await run(stage, drawn);
      } catch (error) {
        if (error instanceof NothingToDo) return;
        throw error;
      }
      await stage.look();
    },
    toString: () => `${name}(${JSON.stringify(drawn)})`,
  }));
}

/** True once in this number of times. */
export const onceIn = (times: number): fc.Arbitrary<boolean> =>
  fc.nat(times - 1).map((n) => n === times - 1);

export const target: fc.Arbitrary<Target> = fc.record({
  nth: fc.nat(BATCHES_MAX - 1),
  any: onceIn(6),
  unknown: onceIn(60),
});

export const act = fc.record({
  by: fc.constantFrom("ann", "Zoë 😀", "'; --", "x=\\"),
  why: fc.constantFrom(null, "because", '"\n\u001b[31m'),
});
