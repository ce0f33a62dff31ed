/**
 * Many batches in several lanes: a submitter, helpers that only work, and an operator who cancels,
 * pauses, moves and redrives at random moments and at last lets everything go on. All of them are
 * started again when they die; when every batch has ended everybody closes, and all is checked.
 */
import { isEnded } from "../src/core/batch.ts";
import { SluiceError } from "../src/core/errors.ts";
import { sleep } from "../src/ports/clock.ts";
import { Engine } from "../src/runtime/engine.ts";
import type { Pipeline } from "../src/runtime/pipeline.ts";
import type { EngineSettings } from "../src/runtime/settings.ts";
import { closeEngines } from "./closing.ts";
import { type Errand, Errands, type Parcel, type PipelinePlot } from "./errands.ts";
import type { FaultPlan } from "./faults.ts";
import { startEngine } from "./history.ts";
import { OperatorPart } from "./operator-part.ts";
import { checkTraffic } from "./traffic-checks.ts";
import { TrafficWitness } from "./traffic-witness.ts";
import { type Node, type Program, World } from "./world.ts";

export interface TrafficPlot {
  readonly seed: number;
  readonly faults: FaultPlan;
  readonly hintLoss: number;
  readonly helpers: number;
  readonly pipelines: readonly PipelinePlot[];
  readonly errands: readonly Errand[];
  /** How many acts the operator does. */
  readonly acts: number;
  /** Within how long. */
  readonly actsWithinMs: number;
  /** The operator moves nothing in its lane and leaves the policies alone. */
  readonly orderly: boolean;
  /** No fault, and some change notifications arrive: what is stopped stops at once. */
  readonly calm: boolean;
  readonly settings?: Partial<EngineSettings>;
}

export interface Traffic {
  readonly world: World;
  readonly errands: Errands;
  readonly problems: readonly string[];
}

export const TRAFFIC_SETTINGS: Partial<EngineSettings> = {
  cancelMs: 300,
  watchMs: 2_000,
  stallMs: 2_000,
  orphanMs: 10_000,
  staleMs: 60_000,
  sealWithinMs: 200_000,
};

const SUBMITTER = "n1";
const OPERATOR = "op";
const LIMIT_MS = 300_000;
/** Once nobody interferes any more and no fault is left, everything ends within this time. */
const CALM_LIMIT_MS = 120_000;
const RESTART_MAX_MS = 600;

export function playTraffic(plot: TrafficPlot): Promise<Traffic> {
  return new Play(plot).run();
}

class Play {
  readonly #plot: TrafficPlot;
  readonly #world: World;
  readonly #errands: Errands;
  readonly #witness: TrafficWitness;
  readonly #operator: OperatorPart;
  readonly #engines = new Map<Node, Engine>();
  readonly #submitted = new Set<string>();
  #starting = 0;
  /** When the last fault or act was. */
  #calmAt: number;

  constructor(plot: TrafficPlot) {
    this.#plot = plot;
    const faults: FaultPlan = (call) => {
      const fault = plot.faults(call);
      if (fault !== null) this.#calmAt = this.#world.time.nowMs;
      return fault;
    };
    this.#world = new World({ ...plot, faults });
    this.#calmAt = this.#world.time.nowMs;
    this.#errands = new Errands(this.#world, plot.errands);
    this.#witness = new TrafficWitness(this.#world, this.#errands, plot);
    this.#operator = new OperatorPart(this.#world, plot);
    this.#world.listeners.push({
      onCommit: () => undefined,
      onCrash: (node) => this.#restart(node),
    });
  }

  async run(): Promise<Traffic> {
    const problems: string[] = [];
    const world = this.#world;
    try {
      world.boot(SUBMITTER, this.#submit);
      for (let n = 0; n < this.#plot.helpers; n++) world.boot(`n${n + 2}`, this.#help);
      world.boot(OPERATOR, this.#operate);
      if (!(await world.run(() => this.#isOver, LIMIT_MS))) problems.push(this.#describeRest());
      const calmMs = world.time.nowMs - Math.max(this.#calmAt, this.#operator.actedAt);
      if (calmMs > CALM_LIMIT_MS) problems.push(`it took ${calmMs} ms to end without a fault`);
      problems.push(...(await closeEngines(this.#world, this.#engines)));
      const pipelines = new Map(this.#plot.pipelines.map((one) => [one.name, one]));
      problems.push(...(await checkTraffic({ world, errands: this.#errands, pipelines })));
    } catch (error) {
      problems.push(String(error));
    }
    problems.unshift(...this.#witness.problems, ...this.#errands.problems);
    problems.unshift(...this.#operator.problems);
    return { world, errands: this.#errands, problems };
  }

  get #isOver(): boolean {
    if (this.#starting > 0 || this.#world.inTransit > 0 || !this.#operator.done) return false;
    if (this.#world.living.some(({ done, failure }) => !done && failure === null)) return false;
    if (this.#submitted.size < this.#plot.errands.length) return false;
    return [...this.#world.store.state.batches.values()].every(({ state }) => isEnded(state));
  }

  #describeRest(): string {
    const rest = [...this.#world.store.state.batches.values()]
      .filter(({ state }) => !isEnded(state))
      .map(({ submission: { key, lane }, state, step, active, parked, cancel }) =>
        JSON.stringify({ key, lane, state, step, active, parked, cancel }),
      );
    return `the time ran out: ${rest.join(", ")}`;
  }

  readonly #submit: Program = async (node) => {
    const engine = await this.#start(node);
    const pipelines = this.#makePipelines(node);
    for (const { key, pipeline, lane, submitAfterMs, deadlineInMs } of this.#plot.errands) {
      await sleep(node.clock, submitAfterMs);
      const definition = pipelines.get(pipeline) as Pipeline<Parcel, string>;
      const handed = definition.steps[0].source === null;
      const input = handed ? this.#errands.listItems(key) : key;
      const deadline =
        deadlineInMs === null ? {} : { deadline: new Date(node.clock.wallMs() + deadlineInMs) };
      const options = { key, lane, ...deadline };
      await engine.submit(definition, input, options);
      this.#submitted.add(key);
    }
  };

  readonly #help: Program = async (node) => {
    const engine = await this.#start(node);
    for (const pipeline of this.#makePipelines(node).values()) engine.work(pipeline);
  };

  readonly #operate: Program = async (node) => {
    const engine = await this.#start(node, false);
    await this.#operator.play(node, engine, () => [...this.#submitted]);
  };

  #makePipelines(node: Node): Map<string, Pipeline<Parcel, string>> {
    const { pipelines } = this.#plot;
    return new Map(pipelines.map((one) => [one.name, this.#errands.makePipeline(node, one)]));
  }

  async #start(node: Node, work = true): Promise<Engine> {
    const watched = { ...node, store: this.#witness.watchReports(node) };
    const engine = await startEngine(watched, {
      ...TRAFFIC_SETTINGS,
      ...this.#plot.settings,
      work,
    });
    this.#engines.set(node, engine);
    return engine;
  }

  #restart({ name }: Node): void {
    this.#starting++;
    const program =
      name === SUBMITTER ? this.#submit : name === OPERATOR ? this.#operate : this.#help;
    this.#world.time.after(Math.floor(this.#world.random.next() * RESTART_MAX_MS), () => {
      this.#starting--;
      this.#world.boot(name, program);
    });
  }
}

/** Plays traffic that must end right; what a failing test prints says how to see it again. */
export async function playTrafficRight(plot: TrafficPlot): Promise<Traffic> {
  const traffic = await playTraffic(plot);
  if (traffic.problems.length === 0) return traffic;
  throw new SluiceError(
    "WRONG",
    [
      `seed ${plot.seed}:`,
      ...traffic.problems.map((problem) => `  - ${problem}`),
      `replay: SLUICE_SEED=${plot.seed} SLUICE_TRACE=1 npx vitest run --project world sim/traffic`,
      traffic.world.trace.describe(),
    ].join("\n"),
  );
}
