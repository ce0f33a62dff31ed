/**
 * A small world: one store, several nodes with the real engine on them, virtual time. Every delay,
 * every fault and every draw comes from the seed, so one seed is one history.
 */
import { hash } from "node:crypto";
import { createMemoryStore, type MemoryStore } from "../src/adapters/memory/store.ts";
import { describeError } from "../src/core/errors.ts";
import type { Random } from "../src/ports/random.ts";
import type { Store } from "../src/ports/store.ts";
import type { SweepResult } from "../src/ports/working.ts";
import type { LogEntry } from "../src/runtime/log.ts";
import { SeededRandom } from "../src/testing/seeded-random.ts";
import { type Fault, type FaultPlan, noFaults } from "./faults.ts";
import type { StoreVerb } from "../src/ports/store-verbs.ts";
import { makeFaultyStore, makeLostReply } from "../src/testing/faulty-store.ts";
import { describeAnswer, digestValue, Trace } from "./trace.ts";
import { MortalClock, VirtualTime } from "../src/testing/virtual-clock.ts";

/** What a node does with its life, from its first breath on. */
export type Program = (node: Node) => Promise<void>;

/** One life of a node. A crashed node that is started again is another one of the same name. */
export interface Node {
  readonly name: string;
  /** 1 for the first start. */
  readonly life: number;
  readonly clock: MortalClock;
  readonly random: Random;
  readonly store: Store;
  readonly logs: LogEntry[];
  alive: boolean;
  /** How many calls of the store it has made. */
  calls: number;
  /** Its program has come to its end. */
  done: boolean;
  /** What its program threw. */
  failure: unknown;
}

export interface WorldOptions {
  readonly seed: number;
  readonly faults?: FaultPlan;
  /** How many of the store's change notifications are lost, from 0 to 1. */
  readonly hintLoss?: number;
}

/** Who killed a node: the fault plan, or the item that it ran. */
export type Killer = "fault" | "item";

export interface WorldListener {
  onCommit(node: Node, verb: StoreVerb, answer: unknown): void;
  onCrash(node: Node, killer: Killer): void;
}

type Reply = { readonly value: unknown } | { readonly error: Error };

const TRAVEL_MAX_MS = 4;
const HINT_MAX_MS = 3;
/** Calls of a dead node that were on their way arrive as often as not. */
const ARRIVES_AFTER_DEATH = 0.5;

export class World {
  readonly seed: number;
  readonly time = new VirtualTime();
  readonly trace = new Trace();
  readonly store: MemoryStore;
  /** For whatever the workload draws. */
  readonly random: SeededRandom;
  /** Every life so far. */
  readonly nodes: Node[] = [];
  readonly listeners: WorldListener[] = [];
  /** Calls that have not arrived yet, also those of the dead. */
  inTransit = 0;
  /** Faults that may cost a node its lease. */
  leaseFaults = 0;
  readonly #faults: FaultPlan;
  readonly #hintLoss: number;
  readonly #watchers = new Map<Node, Set<() => void>>();

  constructor({ seed, faults = noFaults, hintLoss = 0 }: WorldOptions) {
    this.seed = seed;
    this.#faults = faults;
    this.#hintLoss = hintLoss;
    this.random = new SeededRandom(seed);
    this.store = createMemoryStore({
      clock: new MortalClock(this.time),
      sha256: (text) => hash("sha256", text),
    });
  }

  /** Starts a node, or starts a crashed one again. */
  boot(name: string, program: Program): Node {
    const life = this.nodes.filter((node) => node.name === name).length + 1;
    const node: Node = {
      name,
      life,
      clock: new MortalClock(this.time),
      random: new SeededRandom(this.seed * 1_000 + this.nodes.length),
      store: makeFaultyStore(
        this.store,
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
    this.#note(node, "starts");
    program(node).then(
      () => {
        node.done = true;
        this.#note(node, "is done");
      },
      (error: unknown) => {
        node.failure = error;
        this.#note(node, `gives up: ${describeError(error).message}`);
      },
    );
    return node;
  }

  /** From now on nothing that the node does reaches anybody. */
  crash(node: Node, killer: Killer = "fault"): void {
    if (!node.alive) return;
    node.alive = false;
    node.clock.die();
    this.#watchers.delete(node);
    this.#note(node, "dies");
    for (const listener of this.listeners) listener.onCrash(node, killer);
  }

  get living(): Node[] {
    return this.nodes.filter((node) => node.alive);
  }

  /** False when the time ran out first. */
  run(done: () => boolean, limitMs: number): Promise<boolean> {
    return this.time.run(done, limitMs);
  }

  #note({ name, life }: Node, what: string): void {
    this.trace.add(`${this.time.elapsedMs} ${name}.${life} ${what}`);
  }

  #carry(
    node: Node,
    verb: StoreVerb,
    args: readonly unknown[],
    commit: () => Promise<unknown>,
  ): Promise<unknown> {
    if (!node.alive) return never();
    const { name, life } = node;
    const number = ++node.calls;
    const fault = this.#faults({ node: name, life, number, verb });
    if (fault !== null && fault.kind !== "refused") this.leaseFaults++;
    const called = `#${number} ${verb} ${digestValue(args)}`;
    if (fault?.kind === "crash_before") {
      this.#note(node, `${called} was never made`);
      this.crash(node);
      return never();
    }
    const lateMs = fault?.kind === "late" ? fault.byMs : 0;
    this.inTransit++;
    return new Promise((resolve, reject) => {
      const receive = (reply: Reply): void => {
        if ("error" in reply) reject(reply.error);
        else resolve(reply.value);
      };
      this.time.after(lateMs + this.#draw(TRAVEL_MAX_MS), () => {
        this.inTransit--;
        if (!node.alive && this.random.next() >= ARRIVES_AFTER_DEATH) return;
        const reply = this.#arrive(node, verb, called, fault, commit);
        this.time.after(this.#draw(TRAVEL_MAX_MS), () => {
          if (node.alive) void reply.then(receive);
        });
      });
    });
  }

  /** The call is at the store: from here on it has happened, or it never will. */
  #arrive(
    node: Node,
    verb: StoreVerb,
    called: string,
    fault: Fault | null,
    commit: () => Promise<unknown>,
  ): Promise<Reply> {
    const lost: Reply = { error: makeLostReply(verb) };
    if (fault?.kind === "refused") {
      this.#note(node, `${called} is refused`);
      return Promise.resolve(lost);
    }
    const reply = commit().then(
      (value): Reply => {
        this.#note(node, `${called} -> ${describeAnswer(value)}`);
        for (const listener of this.listeners) listener.onCommit(node, verb, value);
        if (isChange(verb, value)) this.#hint();
        return { value };
      },
      (error: unknown): Reply => {
        this.#note(node, `${called} -> ${String(error)}`);
        return { error: error as Error };
      },
    );
    if (fault?.kind === "crash_after") this.crash(node);
    return fault?.kind === "lost_reply" ? Promise.resolve(lost) : reply;
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

  #hint(): void {
    for (const [node, watchers] of this.#watchers) {
      if (this.random.next() < this.#hintLoss) continue;
      node.clock.after(this.#draw(HINT_MAX_MS), () => {
        for (const watcher of watchers) watcher();
      });
    }
  }
}

/** What a dead node waits for. */
export function never(): Promise<never> {
  return Promise.withResolvers<never>().promise;
}

/** Whether others want to know of it: a look that found nothing is no news. */
function isChange(verb: StoreVerb, answer: unknown): boolean {
  switch (verb) {
    case "submit":
    case "startSlicing":
    case "plan":
    case "finishSlicing":
    case "planInline":
    case "seal":
    case "fail":
    case "cancel":
    case "pause":
    case "resume":
    case "setLanePolicy":
    case "moveInLane":
    case "redrive":
    case "editLetter":
    case "discardLetters":
      return true;
    case "work": {
      const { reports, leased } = answer as { reports: unknown[]; leased: unknown[] };
      return reports.length + leased.length > 0;
    }
    case "sweep": {
      const { lostLeases, tended, ended } = answer as SweepResult;
      return lostLeases + tended + ended.length > 0;
    }
    default:
      return false;
  }
}
