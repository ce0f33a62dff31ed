/**
 * A small world: one store, several nodes that run the real engine, virtual time. Every delay,
 * fault and draw comes from the seed, so one seed is one history.
 */
import { hash } from "node:crypto";
import { createMemoryStore, type MemoryStore } from "../src/adapters/memory/store.ts";
import { describeError } from "../src/core/base/errors.ts";
import type { Clock } from "../src/ports/clock.ts";
import type { Random } from "../src/ports/random.ts";
import type { Store } from "../src/ports/store/store.ts";
import type { StoreVerb } from "../src/ports/store/store-verbs.ts";
import type { LogEntry } from "../src/runtime/system/log.ts";
import { makeFaultyStore, makeLostReply } from "../src/testing/faults/faulty-store.ts";
import { SeededRandom } from "../src/testing/world/seeded-random.ts";
import { VirtualTime } from "../src/testing/world/virtual-clock.ts";
import { type CallFacts, type Fault, type FaultKind, type FaultPlan, noFaults } from "./faults.ts";
import { type ClockSkew, NodeClock } from "./node-clock.ts";
import { isChange, isReading } from "./verbs.ts";
import { describeAnswer, type LineKind, Trace, writeArguments } from "./trace.ts";

/** What a node runs from its start. */
export type Program = (node: Node) => Promise<void>;

/**
 * One life of a node: the time from a start to a crash or a close. A crashed node that starts again
 * is a new life with the same name.
 */
export interface Node {
  readonly name: string;
  /** 1 for the first start. */
  readonly life: number;
  readonly clock: NodeClock;
  readonly random: Random;
  readonly store: Store;
  readonly logs: LogEntry[];
  alive: boolean;
  /** Number of store calls that it has made. */
  calls: number;
  /** True when its program has ended. */
  done: boolean;
  /** The error that its program threw. */
  failure: unknown;
}

/** Faults of the store's change notifications, each with a probability. */
export interface HintFaults {
  readonly loss: number;
  readonly repeat: number;
  /** The largest delay of late notifications. */
  readonly lateMaxMs: number;
}

export interface WorldOptions {
  readonly seed: number;
  readonly faults?: FaultPlan;
  /** Share of the store's change notifications that are lost, from 0 to 1. */
  readonly hintLoss?: number;
  readonly hints?: HintFaults;
  /** Wraps the store: the wrapper gets the same calls as the store. */
  readonly wrapStore?: (store: MemoryStore, clock: Clock) => Store;
  /**
   * The store is in the process: a call takes no time, one comes after the other, and every commit
   * is told at once, before its caller has the answer.
   */
  readonly embedded?: boolean;
}

/** For a while one node, or all nodes, cannot reach the store, or get slow answers. */
export interface Weather {
  readonly node: string | null;
  readonly untilMs: number;
  /** The largest extra delay of a call; null when the call does not arrive. */
  readonly delayMaxMs: number | null;
}

/** Why a node died: the fault plan, the item that it ran, or its own error. */
export type Killer = "fault" | "item" | "itself";

export interface WorldListener {
  /** Called after each commit of a call that may have changed something. */
  onCommit?(node: Node, verb: StoreVerb, answer: unknown, args: readonly unknown[]): void;
  onCrash?(node: Node, killer: Killer): void;
  /** A node closes in good order. Leases that it still holds are a leak. */
  onRetire?(node: Node): void;
  /** Something happens to a node, or to all nodes, that may cost a lease. */
  onTrouble?(node: Node | null): void;
  onFault?(kind: FaultKind, node: Node, verb: StoreVerb, call: CallFacts): void;
}

type Reply = { readonly value: unknown } | { readonly error: Error };

/** With more calls at one instant, nodes spin without time passing: a hang. */
const CALLS_PER_INSTANT_MAX = 5_000;
const TRAVEL_MAX_MS = 4;
const HINT_MAX_MS = 3;
/** The longest time that a caller waits for a store that cannot be reached. */
const SILENCE_MAX_MS = 1_000;
/** Calls that a dead node had sent arrive in half of the cases. */
const ARRIVES_AFTER_DEATH = 0.5;

export class World {
  readonly seed: number;
  readonly time = new VirtualTime();
  readonly trace = new Trace();
  readonly store: MemoryStore;
  readonly storeClock: NodeClock;
  /** Randomness for the workload. */
  readonly random: SeededRandom;
  /** Every life of every node. */
  readonly nodes: Node[] = [];
  readonly listeners: WorldListener[] = [];
  /** Calls that have not arrived yet, including those of dead nodes. */
  inTransit = 0;
  /** Number of store calls. */
  calls = 0;
  /** Faults that may cost a node its lease. */
  leaseFaults = 0;
  /** Outages of the moment. Written only through a method that also wakes the calls that wait. */
  weather: Weather[] = [];
  /** Calls at the present instant. */
  #callsNow = 0;
  #instantMs = 0;
  readonly #faults: FaultPlan;
  readonly #hints: HintFaults;
  readonly #embedded: boolean;
  /** The embedded store has committed something that is not told yet. */
  #hasCommitted = false;
  /** The calls of an embedded store so far. */
  #line: Promise<unknown> = Promise.resolve();
  readonly #watchers = new Map<Node, Set<() => void>>();
  /** The store as nodes reach it. */
  readonly #shared: Store;

  constructor(options: WorldOptions) {
    const { seed, faults = noFaults, hintLoss = 0, hints, wrapStore, embedded = false } = options;
    this.seed = seed;
    this.#embedded = embedded;
    this.#faults = faults;
    this.#hints = hints ?? { loss: hintLoss, repeat: 0, lateMaxMs: HINT_MAX_MS };
    this.random = new SeededRandom(seed);
    this.storeClock = new NodeClock(this.time);
    this.store = createMemoryStore({
      clock: this.storeClock,
      sha256: (text) => hash("sha256", text),
    });
    this.#shared = wrapStore?.(this.store, this.storeClock) ?? this.store;
    if (embedded) this.#shared.watch(() => (this.#hasCommitted = true));
  }

  /** More calls came at one instant than any work needs; they got no answer. */
  get spins(): boolean {
    return this.#callsNow > CALLS_PER_INSTANT_MAX;
  }

  /** Starts a node, or restarts a crashed one. */
  boot(name: string, program: Program, skew?: ClockSkew): Node {
    const life = this.nodes.filter((node) => node.name === name).length + 1;
    const node: Node = {
      name,
      life,
      clock: new NodeClock(this.time, skew),
      random: new SeededRandom(this.seed * 1_000 + this.nodes.length),
      store: makeFaultyStore(
        this.#shared,
        (verb, args, commit) => this.#carry(node, verb, args, commit),
        (onChange) => this.#watch(node, onChange),
      ),
      logs: [],
      alive: true,
      calls: 0,
      done: false,
      failure: null,
    };
    this.nodes.push(node);
    this.note(node, "starts");
    program(node).then(
      () => {
        node.done = true;
        this.note(node, "is done");
      },
      (error: unknown) => {
        node.failure = error;
        this.note(node, `gives up: ${describeError(error).message}`);
      },
    );
    return node;
  }

  /** From now on, nothing that the node does has an effect. */
  crash(node: Node, killer: Killer = "fault"): void {
    if (!node.alive) return;
    this.#bury(node);
    this.note(node, "dies");
    for (const listener of this.listeners) listener.onCrash?.(node, killer);
  }

  /** Marks a node that has closed in good order as gone. */
  retire(node: Node): void {
    for (const listener of this.listeners) listener.onRetire?.(node);
    this.#bury(node);
    this.note(node, "has ended");
  }

  #bury(node: Node): void {
    node.alive = false;
    node.clock.die();
    this.#watchers.delete(node);
  }

  get living(): Node[] {
    return this.nodes.filter((node) => node.alive);
  }

  /** False if the time ran out first. */
  run(done: () => boolean, limitMs: number): Promise<boolean> {
    return this.time.run(done, limitMs);
  }

  note({ name, life }: Node, what: string, kind: LineKind = "node", detail = ""): void {
    this.trace.add(this.time.elapsedMs, kind, `${name}.${life} ${what}`, detail);
  }

  #carry(
    node: Node,
    verb: StoreVerb,
    args: readonly unknown[],
    commit: () => Promise<unknown>,
  ): Promise<unknown> {
    if (!node.alive) return never();
    this.calls++;
    if (this.#instantMs !== this.time.nowMs) this.#callsNow = 0;
    this.#instantMs = this.time.nowMs;
    if (++this.#callsNow > CALLS_PER_INSTANT_MAX) return never();
    const facts = { node: node.name, life: node.life, number: ++node.calls, verb };
    const fault = this.#faults(facts);
    if (fault !== null) this.#noteFault(node, facts, fault);
    const called = `#${facts.number} ${verb}`;
    if (fault?.kind === "crash_before") {
      this.crash(node);
      return never();
    }
    const lateMs = (fault?.kind === "late" ? fault.byMs : 0) + this.#drawDelay(node);
    this.inTransit++;
    return new Promise((resolve, reject) => {
      const receive = (reply: Reply): void => {
        if ("error" in reply) reject(reply.error);
        else resolve(reply.value);
      };
      const arrive = (): void => {
        this.inTransit--;
        if (!node.alive && this.random.next() >= ARRIVES_AFTER_DEATH) return;
        const isCutOff = this.#isCutOff(node);
        const reply =
          isCutOff || fault?.kind === "refused"
            ? this.#refuse(node, verb, called)
            : this.#takeTurn(() => this.#arrive(node, verb, args, called, fault, commit));
        const backMs = this.#draw(isCutOff ? SILENCE_MAX_MS : TRAVEL_MAX_MS);
        const heldUpMs = fault?.kind === "late_reply" ? fault.byMs : 0;
        if (this.#embedded && !isCutOff && heldUpMs === 0) {
          void reply.then((answer) => this.#atOnce(node, () => receive(answer)));
        } else node.clock.after(backMs + heldUpMs, () => void reply.then(receive));
      };
      if (this.#embedded && lateMs === 0) arrive();
      else this.time.after(lateMs + this.#draw(TRAVEL_MAX_MS), arrive);
    });
  }

  /** Now, unless the node is dead or frozen. */
  #atOnce({ alive, clock }: Node, act: () => void): void {
    if (alive && !clock.isFrozen) act();
    else clock.after(0, act);
  }

  /** One connection: a call begins when the one before has been told. */
  #takeTurn(act: () => Promise<Reply>): Promise<Reply> {
    if (!this.#embedded) return act();
    const reply = this.#line.then(act);
    this.#line = reply;
    return reply;
  }

  #noteFault(node: Node, call: CallFacts, fault: Fault): void {
    if (fault.kind !== "refused") this.leaseFaults++;
    const what = "byMs" in fault ? `${fault.kind} by ${fault.byMs} ms` : fault.kind;
    this.note(node, `#${call.number} ${call.verb} meets ${what}`, "fault");
    for (const listener of this.listeners) listener.onFault?.(fault.kind, node, call.verb, call);
  }

  #refuse(node: Node, verb: StoreVerb, called: string): Promise<Reply> {
    this.note(node, `${called} is refused`, "call");
    return Promise.resolve({ error: makeLostReply(verb) });
  }

  /** The call is at the store: from here on it has happened, or never will. */
  #arrive(
    node: Node,
    verb: StoreVerb,
    args: readonly unknown[],
    called: string,
    fault: Fault | null,
    commit: () => Promise<unknown>,
  ): Promise<Reply> {
    const reads = isReading(verb);
    const reply = commit().then(
      (value): Reply => {
        const detail = reads ? "" : writeArguments(args);
        this.note(node, `${called} -> ${describeAnswer(value)}`, "call", detail);
        if (!reads) {
          for (const listener of this.listeners) listener.onCommit?.(node, verb, value, args);
        }
        if (this.#embedded) this.#tell();
        else if (isChange(verb, value)) this.#hint();
        return { value };
      },
      (error: unknown): Reply => {
        this.note(node, `${called} -> ${String(error)}`, "call");
        return { error: error as Error };
      },
    );
    if (fault?.kind === "crash_after") this.crash(node);
    return fault?.kind === "lost_reply" ? Promise.resolve({ error: makeLostReply(verb) }) : reply;
  }

  #listWeather({ name }: Node): Weather[] {
    if (this.weather.length === 0) return this.weather;
    this.weather = this.weather.filter(({ untilMs }) => untilMs > this.time.nowMs);
    return this.weather.filter(({ node }) => node === null || node === name);
  }

  #isCutOff(node: Node): boolean {
    return this.#listWeather(node).some(({ delayMaxMs }) => delayMaxMs === null);
  }

  #drawDelay(node: Node): number {
    const delays = this.#listWeather(node).map(({ delayMaxMs }) => delayMaxMs ?? 0);
    return delays.length === 0 ? 0 : this.#draw(Math.max(...delays));
  }

  #draw(maxMs: number): number {
    return Math.floor(this.random.next() * (maxMs + 1));
  }

  #watch(node: Node, onChange: () => void): () => void {
    const watchers = this.#watchers.get(node) ?? new Set();
    if (node.alive) this.#watchers.set(node, watchers);
    const watcher = (): void => onChange();
    watchers.add(watcher);
    return () => void watchers.delete(watcher);
  }

  /** What an embedded store tells after a commit. */
  #tell(): void {
    if (!this.#hasCommitted) return;
    this.#hasCommitted = false;
    for (const [node, watchers] of this.#watchers) {
      for (const watcher of watchers) this.#atOnce(node, watcher);
    }
  }

  #hint(): void {
    const { loss, repeat, lateMaxMs } = this.#hints;
    for (const [node, watchers] of this.#watchers) {
      if (this.random.next() < loss) continue;
      const times = repeat > 0 && this.random.next() < repeat ? 2 : 1;
      for (let time = 0; time < times; time++) {
        node.clock.after(this.#draw(lateMaxMs), () => {
          for (const watcher of watchers) watcher();
        });
      }
    }
  }
}

/** A promise that never settles, for calls of a dead node. */
export function never(): Promise<never> {
  return Promise.withResolvers<never>().promise;
}
