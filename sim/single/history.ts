/**
 * The history of one batch in a world: a submitter that restarts when it dies, helpers that only
 * work, and the faults of the plot. At the end all nodes close, and everything is checked.
 */
import type { Batch } from "../../src/adapters/memory/state.ts";
import { isEnded } from "../../src/core/batch/batch.ts";
import type { Pipeline } from "../../src/runtime/pipeline/pipeline.ts";
import type { Engine } from "../../src/runtime/engine/engine.ts";
import { closeEngines } from "../closing.ts";
import { checkEnding } from "./checks.ts";
import type { FaultPlan } from "../faults.ts";
import { type SimSettings, startEngine } from "../start-engine.ts";
import { Witness } from "./witness.ts";
import { type Item, Workload, type WorkloadOptions } from "./workload.ts";
import { type Node, type Program, World } from "../world.ts";

export interface Plot extends WorkloadOptions {
  readonly seed: number;
  readonly faults: FaultPlan;
  readonly hintLoss?: number;
  /** Nodes beside the submitter. Default 1. */
  readonly helpers?: number;
  /** Restarts of a crashed node, at most. Default 0. */
  readonly restarts?: number;
  readonly settings?: SimSettings;
  /** Called when a node has died. */
  readonly onCrash?: (world: World) => void;
}

export interface History {
  readonly world: World;
  readonly workload: Workload;
  /** Null if the submit never arrived. */
  readonly batch: Batch | null;
  readonly problems: readonly string[];
}

export const SUBMITTER = "n1";
const KEY = "the-batch";
/** No batch of these worlds needs more time, whatever happens to it. */
const LIMIT_MS = 300_000;
const RESTART_MAX_MS = 600;

export async function playBatch(plot: Plot): Promise<History> {
  return new Play(plot).run();
}

class Play {
  readonly #plot: Plot;
  readonly #world: World;
  readonly #workload: Workload;
  readonly #witness: Witness;
  readonly #engines = new Map<Node, Engine>();
  /** Nodes that will restart. */
  #starting = 0;

  constructor(plot: Plot) {
    this.#plot = plot;
    this.#world = new World(plot);
    this.#workload = new Workload(this.#world, plot);
    this.#witness = new Witness(this.#world, this.#workload);
    this.#world.listeners.push({
      onCommit: () => undefined,
      onCrash: (node) => {
        plot.onCrash?.(this.#world);
        this.#restart(node);
      },
    });
  }

  async run(): Promise<History> {
    const { helpers = 1 } = this.#plot;
    const problems: string[] = [];
    try {
      this.#world.boot(SUBMITTER, this.#submit);
      for (let n = 0; n < helpers; n++) this.#world.boot(`n${n + 2}`, this.#help);
      const rested = await this.#world.run(() => this.#isOver, LIMIT_MS);
      if (!rested) problems.push("the time ran out");
      problems.push(...(await closeEngines(this.#world, this.#engines)));
    } catch (error) {
      problems.push(String(error));
    }
    const batch = this.#world.store.state.batches.values().next().value ?? null;
    const { world, workload } = { world: this.#world, workload: this.#workload };
    if (batch !== null) problems.push(...(await checkEnding({ world, workload, batch })));
    problems.unshift(...this.#witness.problems);
    return { world, workload, batch, problems };
  }

  /** No node waits any more, and no call is on its way. */
  get #isOver(): boolean {
    const { living } = this.#world;
    const waits = living.some(({ done, failure }) => !done && failure === null);
    if (waits || this.#starting > 0 || this.#hasOrphanedCalls) return false;
    const batches = [...this.#world.store.state.batches.values()];
    return batches.every(({ state }) => isEnded(state));
  }

  /** The last call of a dead submitter may still create a batch. */
  get #hasOrphanedCalls(): boolean {
    const { inTransit, store } = this.#world;
    return inTransit > 0 && store.state.batches.size === 0;
  }

  readonly #submit: Program = async (node) => {
    const engine = await this.#start(node);
    const pipeline = this.#workload.makePipeline(node);
    const handle =
      this.#plot.supply === "handed_over"
        ? await engine.submit(pipeline as unknown as Pipeline<Item, Iterable<Item>>, this.#items, {
            key: KEY,
          })
        : await engine.submit(pipeline, "everything", { key: KEY });
    await handle.wait();
  };

  get #items(): Item[] {
    return this.#workload.items;
  }

  readonly #help: Program = async (node) => {
    const engine = await this.#start(node);
    engine.work(this.#workload.makePipeline(node));
  };

  async #start(node: Node): Promise<Engine> {
    const engine = await startEngine(node, this.#plot.settings);
    this.#engines.set(node, engine);
    return engine;
  }

  #restart({ name, life }: Node): void {
    if (life > (this.#plot.restarts ?? 0)) return;
    this.#starting++;
    this.#world.time.after(Math.floor(this.#world.random.next() * RESTART_MAX_MS), () => {
      this.#starting--;
      this.#world.boot(name, name === SUBMITTER ? this.#submit : this.#help);
    });
  }
}

/** Plays a batch that must end correctly, in addition to the test's own checks. */
export async function playRight(plot: Plot, what: string): Promise<History> {
  const history = await playBatch(plot);
  if (history.problems.length > 0) throw new Error(describeFailure(plot, what, history));
  return history;
}

/**
 * The message of a failing test: the problem, the command that replays it, and the end of the
 * trace.
 */
function describeFailure({ seed }: Plot, what: string, { world, problems }: History): string {
  return [
    `seed ${seed}, ${what}:`,
    ...problems.map((problem) => `  - ${problem}`),
    `replay: SLUICE_SEED=${seed} SLUICE_TRACE=1 npx vitest run --project world`,
    world.trace.describe(),
  ].join("\n");
}
