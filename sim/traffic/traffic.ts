/**
 * Many batches in several lanes: submitters, helpers that only work, and an operator who cancels,
 * pauses, moves and redrives at drawn moments and at the end resumes everything. All of them
 * restart when they die. When every batch has ended, all nodes close and everything is checked.
 */
import type { Batch } from "../../src/adapters/memory/state.ts";
import { isEnded } from "../../src/core/batch/batch.ts";
import { FatalError, SluiceError } from "../../src/core/base/errors.ts";
import { sleep } from "../../src/ports/clock.ts";
import type { BatchHandle } from "../../src/runtime/engine/batch-handle.ts";
import { Engine } from "../../src/runtime/engine/engine.ts";
import type { Pipeline } from "../../src/runtime/pipeline/pipeline.ts";
import { CHECKERS } from "../checkers/all.ts";
import type { Checker, Judged, Scene } from "../checkers/checker.ts";
import { checkDeliveries } from "../checkers/deliveries.ts";
import { closeEngines } from "../closing.ts";
import { type FaultPlan, OPERATOR } from "../faults.ts";
import { startEngine } from "../start-engine.ts";
import { NO_SKEW } from "../node-clock.ts";
import { type Node, type Program, World, type WorldOptions } from "../world.ts";
import type { Errand, Parcel } from "./errand.ts";
import { Errands } from "./errands.ts";
import { schedule } from "./happenings.ts";
import { openSigningKey } from "./signing-key.ts";
import { ListenerPart } from "./listener-part.ts";
import { OperatorPart } from "./operator-part.ts";
import type { HappeningName, TrafficPlot } from "./plot.ts";
import { fillOpenBatch } from "./producer-part.ts";

export interface Traffic {
  readonly world: World;
  readonly errands: Errands;
  readonly problems: readonly string[];
  /** How often each promise was judged. */
  readonly judged: ReadonlyMap<Judged, number>;
}

export interface TrafficOptions extends Pick<WorldOptions, "wrapStore" | "embedded"> {
  /** Called before the first moment of the play. */
  readonly onStage?: (stage: Stage) => void;
  /** Ends the play early: what comes later is not checked. */
  readonly endsWhen?: (problems: readonly string[]) => boolean;
}

/** Callbacks for counters, such as the coverage. */
export interface Stage {
  readonly world: World;
  readonly errands: Errands;
  readonly operator: OperatorPart;
  onHappening: (what: HappeningName) => void;
}

/** A play that lasts longer than this has gone wrong, however many faults it had. */
const OVERTIME_MS = 4 * 3_600_000;
const PROBLEMS_MAX = 20;
const WAIT_AGAIN_MS = 1_000;
const SIGN_EVERY_MS = 20_000;
/** Submitters sometimes repeat a submit. */
const REPEATS = 0.3;

export function playTraffic(plot: TrafficPlot, options: TrafficOptions = {}): Promise<Traffic> {
  return new Play(plot, options).run();
}

class Play {
  readonly #plot: TrafficPlot;
  readonly #world: World;
  readonly #errands: Errands;
  readonly #checkers: Checker[];
  readonly #operator: OperatorPart;
  readonly #listener: ListenerPart;
  readonly #stage: Stage;
  readonly #engines = new Map<Node, Engine>();
  /** Batches that are there. */
  readonly #submitted = new Set<string>();
  /** Batches that have all their items, too. */
  readonly #handed = new Set<string>();
  /** Nodes that are closing in good order. */
  readonly #closing = new Set<Node>();
  /** Number of deployments on each node. */
  readonly #deployed = new Map<string, number>();
  /** Which node waits for the end of which batch. */
  readonly #waiting = new Map<Node, Set<string>>();
  readonly #problems: string[] = [];
  readonly #judged = new Map<Judged, number>();
  readonly #endsEarly: () => boolean;
  #starting = 0;
  /** Time of the last fault or act. */
  #calmAt: number;

  constructor(plot: TrafficPlot, { onStage, endsWhen, ...options }: TrafficOptions) {
    this.#plot = plot;
    this.#endsEarly = () => endsWhen?.(this.#problems) === true;
    const faults: FaultPlan = (call) => {
      if (this.#world.time.elapsedMs > plot.faultsUntilMs) return null;
      const fault = plot.faults(call);
      if (fault !== null) this.#calmAt = Math.max(this.#calmAt, this.#world.time.nowMs);
      return fault;
    };
    this.#world = new World({ ...plot, ...options, faults });
    this.#calmAt = this.#world.time.nowMs;
    this.#errands = new Errands(this.#world, plot.errands);
    this.#operator = new OperatorPart(this.#world, plot);
    const deliveries = checkDeliveries(this.#makeScene("deliveries"));
    this.#checkers = [deliveries];
    for (const [promise, make] of CHECKERS) this.#checkers.push(make(this.#makeScene(promise)));
    this.#world.listeners.push(...this.#checkers, {
      onCrash: (node) => {
        this.#calmAt = Math.max(this.#calmAt, this.#world.time.nowMs);
        this.#restart(node);
      },
    });
    this.#errands.listeners.push(...this.#checkers);
    this.#listener = new ListenerPart(this.#world, plot, deliveries);
    const { world, errands } = { world: this.#world, errands: this.#errands };
    this.#stage = { world, errands, operator: this.#operator, onHappening: () => undefined };
    onStage?.(this.#stage);
  }

  #makeScene(promise: string): Scene {
    const fail = (problem: string, facts?: unknown): void => {
      if (this.#problems.length >= PROBLEMS_MAX) return;
      const tail = facts === undefined ? "" : `: ${JSON.stringify(facts)}`;
      this.#problems.push(`${promise}: at ${this.#world.time.elapsedMs} ms ${problem}${tail}`);
    };
    const count = (what: Judged): void =>
      void this.#judged.set(what, (this.#judged.get(what) ?? 0) + 1);
    return { world: this.#world, errands: this.#errands, plot: this.#plot, fail, count };
  }

  async run(): Promise<Traffic> {
    const world = this.#world;
    const scene = this.#makeScene("no hang");
    const fail = (problem: string): void => scene.fail(problem);
    const onRejection = (error: unknown): void => fail(`unexpected error: ${String(error)}`);
    process.on("unhandledRejection", onRejection);
    try {
      this.#begin();
      const limitMs = this.#plot.lastsMs + OVERTIME_MS;
      if (!(await world.run(() => this.#isOver(fail), limitMs))) fail(this.#describeRest());
      if (!this.#endsEarly()) {
        for (const problem of await closeEngines(world, this.#engines)) fail(problem);
        for (const checker of this.#checkers) await checker.atEnd?.();
      }
    } catch (error) {
      fail(error instanceof Error ? (error.stack ?? String(error)) : String(error));
    } finally {
      process.off("unhandledRejection", onRejection);
    }
    for (const problem of this.#operator.problems) fail(problem);
    return { world, errands: this.#errands, problems: this.#problems, judged: this.#judged };
  }

  #begin(): void {
    const { submitters, helpers, happenings } = this.#plot;
    for (let n = 0; n < submitters; n++) this.#boot(`n${n + 1}`);
    for (let n = 0; n < helpers; n++) this.#boot(`n${submitters + n + 1}`);
    this.#boot(OPERATOR);
    schedule(happenings, {
      world: this.#world,
      restart: (node, deploys) => this.#close(node, deploys),
      onHappening: (what, forMs) => {
        this.#stage.onHappening(what);
        this.#calmAt = Math.max(this.#calmAt, this.#world.time.nowMs + forMs);
      },
    });
  }

  #boot(name: string): void {
    const { skewMaxMs } = this.#plot;
    const number = Number(name.slice(1));
    const program =
      name === OPERATOR
        ? this.#operate
        : number <= this.#plot.submitters
          ? this.#submit
          : this.#help;
    const draw = (): number => Math.round((this.#world.random.next() * 2 - 1) * skewMaxMs);
    const skew = skewMaxMs === 0 ? NO_SKEW : { wallMs: draw(), monotonicMs: Math.abs(draw()) };
    this.#world.boot(name, (node) => this.#guard(node, program), skew);
  }

  /** A node that cannot reach the store when it must gives up, as a process would, and restarts. */
  async #guard(node: Node, program: Program): Promise<void> {
    try {
      await program(node);
    } catch (error) {
      if (this.#closing.has(node) && error instanceof SluiceError) return;
      if (!(error instanceof SluiceError && error.retryable)) throw error;
      this.#world.crash(node, "itself");
    }
  }

  /** Also reports what took too long. */
  #isOver(fail: (problem: string) => void): boolean {
    const { time } = this.#world;
    // A history with a broken promise may never end.
    if (this.#problems.length >= PROBLEMS_MAX || this.#endsEarly()) return true;
    if (this.#world.spins) {
      fail(`${this.#world.calls} calls, the last of them without end at one instant`);
      return true;
    }
    if (time.elapsedMs < this.#plot.lastsMs) return false;
    if (this.#isDone) return this.#world.inTransit === 0;
    const calmMs = time.nowMs - Math.max(this.#calmAt, this.#operator.actedAt);
    if (calmMs <= this.#plot.calmLimitMs) return false;
    fail(`after ${calmMs} ms without a fault: ${this.#describeRest()}`);
    return true;
  }

  get #isDone(): boolean {
    if (this.#starting > 0 || !this.#operator.done) return false;
    if (this.#world.living.some(({ done, failure }) => !done && failure === null)) return false;
    if (this.#world.living.some(({ clock }) => clock.isFrozen)) return false;
    if (this.#submitted.size < this.#plot.errands.length) return false;
    if (this.#world.living.some((node) => (this.#waiting.get(node)?.size ?? 0) > 0)) return false;
    const batches = [...this.#world.store.state.batches.values()];
    if (!batches.every(({ state }) => isEnded(state)) || !this.#listener.isDone) return false;
    // Where ledgers are kept, every record of every batch is signed.
    return !this.#signs || batches.every(isSigned);
  }

  get #signs(): boolean {
    return this.#plot.pipelines.some(({ ledger }) => ledger);
  }

  #describeRest(): string {
    const rest = [...this.#world.store.state.batches.values()]
      .filter(({ state }) => !isEnded(state))
      .map(({ submission: { key, lane }, state, step, active, parked, cancel }) =>
        JSON.stringify({ key, lane, state, step, active, parked, cancel }),
      );
    const busy = this.#world.living.filter(({ done }) => !done).map(({ name }) => name);
    const waits = this.#world.living.flatMap((node) => [...(this.#waiting.get(node) ?? [])]);
    const closing = [...this.#closing].map(({ name }) => name);
    const open = this.#plot.errands.filter(({ key }) => !this.#submitted.has(key)).length;
    const all = [...this.#world.store.state.batches.values()];
    const unsigned = this.#signs ? all.filter((batch) => !isSigned(batch)).length : 0;
    const readers = this.#listener.isDone;
    const lists = { batches: rest, busy, closing, waits, open, readers, unsigned };
    return `not everything has ended: ${JSON.stringify(lists)}`;
  }

  readonly #submit: Program = async (node) => {
    const engine = await this.#start(node);
    const pipelines = this.#makePipelines(node);
    this.#listener.subscribe(node, engine);
    for (const pipeline of pipelines.values()) engine.work(pipeline);
    for (const errand of this.#plot.errands) {
      const { key, submitAfterMs, pipeline } = errand;
      if (this.#handed.has(key) && this.#world.random.next() >= REPEATS) continue;
      if (!this.#submitted.has(key)) await sleep(node.clock, submitAfterMs);
      await this.#hand(node, engine, errand, pipelines.get(pipeline) as Pipeline<Parcel, string>);
    }
  };

  async #hand(
    node: Node,
    engine: Engine,
    errand: Errand,
    pipeline: Pipeline<Parcel, string>,
  ): Promise<void> {
    const { key, lane, deadlineInMs } = errand;
    const items = this.#errands.listItems(key);
    const { supply } = this.#plot.pipelines.find(({ name }) => name === pipeline.name) ?? {};
    const deadline =
      deadlineInMs === null ? {} : { deadline: new Date(node.clock.wallMs() + deadlineInMs) };
    const accept = (): void => void this.#submitted.add(key);
    try {
      if (supply === "open") {
        // Two producers would each add everything.
        if (node.name !== "n1") return;
        await fillOpenBatch(node, engine, pipeline, errand, items, accept);
        this.#handed.add(key);
        return;
      }
      const input = supply === "handed_over" ? (items as unknown as string) : key;
      const handle = await engine.submit(pipeline, input, { key, lane, ...deadline });
      accept();
      this.#handed.add(key);
      this.#await(node, key, handle);
    } catch (error) {
      // Another submitter with older or newer code was first.
      if (!(error instanceof SluiceError && error.code === "OTHER_VERSION")) throw error;
      accept();
      this.#handed.add(key);
    }
  }

  /** A caller that waits for a batch learns of its end, as long as its node lives. */
  #await(node: Node, key: string, handle: BatchHandle): void {
    const waiting = this.#waiting.get(node) ?? new Set();
    this.#waiting.set(node, waiting);
    waiting.add(key);
    const wait = (): void => {
      handle.wait().then(
        () => void waiting.delete(key),
        (error: unknown) => {
          const mayRetry = error instanceof SluiceError && error.retryable;
          if (!mayRetry || this.#closing.has(node)) waiting.delete(key);
          else void sleep(node.clock, WAIT_AGAIN_MS).then(wait);
        },
      );
    };
    wait();
  }

  readonly #help: Program = async (node) => {
    const engine = await this.#start(node);
    this.#listener.subscribe(node, engine);
    for (const pipeline of this.#makePipelines(node).values()) engine.work(pipeline);
  };

  readonly #operate: Program = async (node) => {
    const engine = await this.#start(node, false);
    await this.#operator.play(node, engine, () => [...this.#submitted]);
  };

  #makePipelines(node: Node): Map<string, Pipeline<Parcel, string>> {
    const deployed = this.#deployed.get(node.name) ?? 0;
    return new Map(
      this.#plot.pipelines.map((one) => [
        one.name,
        this.#errands.makePipeline(node, one, deployed),
      ]),
    );
  }

  async #start(node: Node, work = true): Promise<Engine> {
    const ledger = this.#signs ? { keyFile: openSigningKey, everyMs: SIGN_EVERY_MS } : null;
    const engine = await startEngine(node, { ...this.#plot.settings, work, ledger });
    this.#engines.set(node, engine);
    engine.onFailure((error) => {
      if (error instanceof FatalError) this.#world.crash(node, "item");
    });
    return engine;
  }

  #restart(node: Node): void {
    const wasClosing = this.#closing.delete(node);
    if (!wasClosing) this.#starting++;
    this.#engines.delete(node);
    this.#startLater(node.name);
  }

  #startLater(name: string): void {
    const delayMs = Math.floor(this.#world.random.next() * this.#plot.restartMaxMs);
    this.#world.time.after(delayMs, () => {
      this.#starting--;
      this.#boot(name);
    });
  }

  /** Closes a node in good order, and restarts it. */
  #close(node: Node, deploys: boolean): void {
    const engine = this.#engines.get(node);
    if (engine === undefined || this.#closing.has(node)) return;
    this.#closing.add(node);
    this.#starting++;
    const retire = (): void => {
      if (!node.alive) return;
      this.#closing.delete(node);
      this.#engines.delete(node);
      this.#world.retire(node);
      if (deploys) this.#deployed.set(node.name, 1);
      this.#startLater(node.name);
    };
    engine.close().then(retire, retire);
  }
}

function isSigned({ signedHeads, head }: Batch): boolean {
  return signedHeads.at(-1)?.size === head.seq;
}

/**
 * Plays traffic that must end correctly; the message of a failing test has the command that replays
 * it.
 */
export async function playTrafficRight(plot: TrafficPlot): Promise<Traffic> {
  const traffic = await playTraffic(plot);
  if (traffic.problems.length === 0) return traffic;
  throw new SluiceError(
    "WRONG",
    [
      `seed ${plot.seed}:`,
      ...traffic.problems.map((problem) => `  - ${problem}`),
      traffic.world.trace.describe(),
    ].join("\n"),
  );
}
