/**
 * The calls between the processes of a world and its one store. Each travels for a moment there and
 * back, and a fault may happen on its way; calls that a dead process has sent do not arrive.
 */
import type { MemoryStore } from "../../adapters/memory/store.ts";
import type { Random } from "../../ports/random.ts";
import type { Store } from "../../ports/store/store.ts";
import type { StoreVerb } from "../../ports/store/store-verbs.ts";
import { type AnsweredCall, describeCommit, isAt } from "../faults/fault-points.ts";
import type { FaultDesk } from "../faults/fault-desk.ts";
import { describeFault, type Fault } from "../faults/faults.ts";
import { makeFaultyStore, makeLostReply } from "../faults/faulty-store.ts";
import type { Life } from "./life.ts";
import { never } from "./never.ts";
import { findScope } from "./scope.ts";
import type { VirtualTime } from "./virtual-clock.ts";

/** One call on its way. */
interface Call {
  readonly life: Life;
  readonly process: string;
  readonly verb: StoreVerb;
  readonly args: readonly unknown[];
  readonly make: () => Promise<unknown>;
}

type Reply = { readonly value: unknown } | { readonly error: Error };

export interface TrafficParts {
  readonly time: VirtualTime;
  readonly store: MemoryStore;
  readonly random: Random;
  readonly desk: FaultDesk;
  readonly note: (life: Life, what: string) => void;
  readonly onKill: (life: Life, fault: Fault) => void;
  readonly onCommit: () => void;
  /** The world itself is broken. */
  readonly onError: (error: unknown) => void;
}

const TRAVEL_MS_MAX = 3;
const HINT_MS_MAX = 3;

export class StoreTraffic {
  readonly #parts: TrafficParts;
  readonly #watchers = new Map<Life, Set<() => void>>();
  /** Every commit so far, in words. */
  readonly commits: string[] = [];

  constructor(parts: TrafficParts) {
    this.#parts = parts;
  }

  /** The store as one life reaches it. */
  connect(life: Life): Store {
    return makeFaultyStore(
      this.#parts.store,
      (verb, args, make) => this.#send({ life, process: life.process, verb, args, make }),
      (onChange) => this.#watch(life, onChange),
    );
  }

  disconnect(life: Life): void {
    this.#watchers.delete(life);
  }

  #send(call: Call): Promise<unknown> {
    const { time } = this.#parts;
    if (!call.life.alive) return never();
    // Called within a handler: it waits for an answer that needs virtual time.
    const resume = findScope(time)?.hold?.suspend() ?? (() => undefined);
    return new Promise((resolve, reject) => {
      const receive = (reply: Reply): void => {
        if (!call.life.alive) return;
        resume();
        if ("error" in reply) reject(reply.error);
        else resolve(reply.value);
      };
      const answer = (reply: Reply): void => {
        time.after(this.#draw(TRAVEL_MS_MAX), () => receive(reply));
      };
      time.after(this.#draw(TRAVEL_MS_MAX), () => this.#deliver(call, answer));
    });
  }

  #deliver(call: Call, answer: (reply: Reply) => void): void {
    this.#arrive(call, answer).catch(this.#parts.onError);
  }

  /** The call has reached the store: from here on it has happened, or it never will. */
  async #arrive(call: Call, answer: (reply: Reply) => void): Promise<void> {
    const { time, desk, note, onKill } = this.#parts;
    if (!call.life.alive) return;
    const before = await desk.findBefore(call);
    if (before !== null) {
      note(call.life, `${describeFault(before)} strikes ${call.verb}`);
      if (before.kind === "crash_before") onKill(call.life, before);
      else if (before.kind === "refuse") answer({ error: makeLostReply(call.verb) });
      else time.after(before.byMs, () => this.#deliver(call, answer));
      return;
    }
    const reply = await this.#make(call);
    if ("error" in reply) return answer(reply);
    const after = desk.noteMade(call, reply.value);
    if (after === null) return answer(reply);
    note(call.life, `${describeFault(after)} strikes ${call.verb}`);
    if (after.kind === "crash_after") onKill(call.life, after);
    else answer({ error: makeLostReply(call.verb) });
  }

  async #make({ life, verb, args, make }: Call): Promise<Reply> {
    let value: unknown;
    try {
      value = await make();
    } catch (error) {
      return { error: error as Error };
    }
    const call: AnsweredCall = { verb, args, answer: value };
    if (isAt("commit", call)) {
      const what = describeCommit(call);
      this.commits.push(what);
      this.#parts.note(life, `commit ${this.commits.length}: ${what}`);
      this.#parts.onCommit();
      this.#hint();
    }
    return { value };
  }

  #draw(maxMs: number): number {
    return Math.floor(this.#parts.random.next() * (maxMs + 1));
  }

  #watch(life: Life, onChange: () => void): () => void {
    const watchers = this.#watchers.get(life) ?? new Set();
    if (life.alive) this.#watchers.set(life, watchers);
    // Each is a separate subscription, even with the same function.
    const watcher = (): void => onChange();
    watchers.add(watcher);
    return () => void watchers.delete(watcher);
  }

  /** Notifies every process that something has changed. */
  #hint(): void {
    for (const [life, watchers] of this.#watchers) {
      life.clock.after(this.#draw(HINT_MS_MAX), () => {
        for (const watcher of watchers) watcher();
      });
    }
  }
}
