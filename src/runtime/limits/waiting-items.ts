/**
 * Held items that wait for the right to start, by the key whose tokens they need. A batch with a
 * pace has its own group: its items also need one of the batch's tokens. Items of one key start in
 * order; keys take turns.
 */
import type { WaitReason } from "../../core/limits/bucket.ts";
import type { LimitWait } from "../../core/items/report.ts";
import type { TokenNeed } from "../../ports/store/token-store.ts";
import type { ChunkRun } from "../chunk/chunk-run.ts";
import { TokenBalance } from "./token-balance.ts";

export interface StartRight {
  readonly run: ChunkRun;
  readonly index: number;
  /** It must start before this time. */
  readonly until: number;
}

/** Consecutive waiting items of one run: without keys a chunk is one entry. */
interface Entry {
  readonly run: ChunkRun;
  readonly indexes: readonly number[];
  /** Items before this one have started. */
  next: number;
}

/** Something that tokens are requested for. */
export class Queue {
  readonly tokenNeed: TokenNeed;
  readonly balance = new TokenBalance();
  entries: Entry[] = [];
  /** Items in them. */
  waiting = 0;
  /** A store call for it is under way. */
  asking = false;
  /** It is in the list of queues that take turns. */
  listed = false;
  /** Until when items that were given back will have had their turn. */
  backlogUntil = 0;

  constructor(tokenNeed: TokenNeed) {
    this.tokenNeed = tokenNeed;
  }

  /** The average time between two starts. */
  get everyMs(): number {
    const { spec, cost } = this.tokenNeed;
    if (spec.kind === "open") return 0;
    return spec.kind === "rate" ? (1_000 * cost) / spec.perSecond : spec.everyMs / spec.items;
  }
}

/** The name of the queue without a limit: it is always open. */
const UNLIMITED = "";

export function nameNeed({ cost, bucket, key }: TokenNeed): string {
  return `${cost} ${bucket} ${key}`;
}

export class LimitGroup {
  /** The tokens of the batch's own pace; null for none. */
  readonly pace: Queue | null;
  readonly queues = new Map<string, Queue>();
  /** Queues that may have an item to start now, in turn. */
  #turns: Queue[] = [];
  /** How many items wait. */
  waiting = 0;
  readonly #mayStart: (run: ChunkRun, now: number) => boolean;

  constructor(pace: TokenNeed | null, mayStart: (run: ChunkRun, now: number) => boolean) {
    this.pace = pace === null ? null : new Queue(pace);
    this.#mayStart = mayStart;
  }

  /** Consecutive items; with no token need they need no token of their own. */
  add(run: ChunkRun, indexes: readonly number[], tokenNeed: TokenNeed | null, now: number): void {
    const name = tokenNeed === null ? UNLIMITED : nameNeed(tokenNeed);
    let queue = this.queues.get(name);
    if (queue === undefined) {
      queue = new Queue(tokenNeed ?? { bucket: "", key: "", spec: { kind: "open" }, cost: 1 });
      if (tokenNeed === null) queue.balance.add(FOREVER, now, now);
      this.queues.set(name, queue);
    }
    queue.balance.lookAgain();
    queue.entries.push({ run, indexes, next: 0 });
    queue.waiting += indexes.length;
    run.waiting += indexes.length;
    this.waiting += indexes.length;
    this.offer(queue);
  }

  /** The queue may have an item to start. */
  offer(queue: Queue): void {
    if (queue.listed) return;
    queue.listed = true;
    this.#turns.push(queue);
  }

  /** The next item that may start now, of this run or of any; null for none. */
  take(now: number, run: ChunkRun | null = null): StartRight | null {
    if (this.pace !== null && !this.pace.balance.canTake(now)) return null;
    for (let tries = this.#turns.length; tries > 0; tries--) {
      // By index, as this runs for every item.
      const queue = this.#turns[0];
      if (queue === undefined) break;
      const entry = queue.entries[0];
      const isHeldUp =
        entry !== undefined &&
        ((run !== null && entry.run !== run) || !this.#mayStart(entry.run, now));
      const until = entry === undefined || isHeldUp ? null : queue.balance.take(now);
      if (!isHeldUp && until === null) {
        queue.listed = false;
        this.#turns.shift();
        continue;
      }
      // The next queue's turn.
      if (this.#turns.length > 1) this.#turns.push(...this.#turns.splice(0, 1));
      if (entry === undefined || until === null) continue;
      return this.#start(queue, entry, Math.min(until, this.pace?.balance.take(now) ?? until));
    }
    return null;
  }

  #start(queue: Queue, entry: Entry, until: number): StartRight {
    const { run, indexes } = entry;
    const index = indexes[entry.next++] ?? -1;
    if (entry.next === indexes.length) queue.entries.shift();
    queue.waiting--;
    run.waiting--;
    this.waiting--;
    return { run, index, until };
  }

  canTake(now: number): boolean {
    if (this.waiting === 0 || this.pace?.balance.canTake(now) === false) return false;
    return this.#turns.some(({ entries: [entry], balance }) => {
      return entry !== undefined && balance.canTake(now) && this.#mayStart(entry.run, now);
    });
  }

  /** When something may start, or when to ask again: for the pace, or else for each key. */
  *listNextAts(now: number): Generator<number> {
    const paceAt = this.pace?.balance.findNextAt(now) ?? now;
    if (paceAt > now) {
      yield paceAt;
      return;
    }
    for (const { entries, balance } of this.queues.values()) {
      if (entries.length > 0) yield balance.findNextAt(now);
    }
  }

  /** Drops the waiting items of these runs. */
  drop(runs: ReadonlySet<ChunkRun>): void {
    for (const queue of this.queues.values()) {
      const before = queue.waiting;
      if (queue.entries.some(({ run }) => runs.has(run))) {
        queue.entries = queue.entries.filter(({ run }) => !runs.has(run));
        queue.waiting = queue.entries.reduce((sum, entry) => sum + countItems(entry), 0);
      }
      this.waiting -= before - queue.waiting;
    }
    for (const run of runs) run.waiting = 0;
  }

  /** Drops keys without waiting items, so that thousands of them cost nothing. */
  tidy(now: number): void {
    for (const [name, { entries, asking, backlogUntil, balance }] of this.queues) {
      if (entries.length > 0 || asking || backlogUntil > now) continue;
      // Tokens that were drawn ahead are kept for later items.
      if (!balance.isWorthKeeping(now)) this.queues.delete(name);
    }
  }

  /** When each run's next item may start, as far as known, and which limit it waits for. */
  estimate(now: number): Map<ChunkRun, Turn> {
    const turns = new Map<ChunkRun, Turn>();
    const groupAt = this.pace === null ? now : this.pace.balance.findNextAt(now);
    let place = 0;
    for (const queue of this.queues.values()) {
      const queueAt = queue.balance.findNextAt(now);
      let at = 0;
      for (const entry of queue.entries) {
        const { run } = entry;
        // The first item of an entry is the first to start.
        const paceAt = groupAt + this.#computePaceMs(place);
        const rateAt = queueAt + at * queue.everyMs;
        at += countItems(entry);
        place += countItems(entry);
        const startAt = Math.max(paceAt, rateAt);
        const known = turns.get(run);
        if (known !== undefined && known.startAt <= startAt) continue;
        turns.set(run, { startAt, limit: paceAt > rateAt ? (this.pace ?? queue) : queue });
      }
    }
    return turns;
  }

  #computePaceMs(place: number): number {
    const spec = this.pace?.tokenNeed.spec;
    if (spec?.kind !== "pace") return 0;
    return spec.smooth
      ? (place * spec.everyMs) / spec.items
      : Math.floor(place / spec.items) * spec.everyMs;
  }
}

function countItems({ indexes, next }: Entry): number {
  return indexes.length - next;
}

export interface Turn {
  readonly startAt: number;
  /** The limit that it waits for. */
  readonly limit: Queue;
}

/**
 * How long a chunk that waits for a limit stays given back. A started chunk continues as soon as it
 * may. Others wait behind chunks that were given back before them, so that each is leased about
 * once and not whenever anything may start.
 */
export function planLimitWait({ startAt, limit }: Turn, run: ChunkRun, now: number): LimitWait {
  const { tokenNeed, balance } = limit;
  const at = run.hasStarted ? startAt : Math.max(startAt, limit.backlogUntil);
  limit.backlogUntil = Math.max(limit.backlogUntil, at) + run.waiting * limit.everyMs;
  const waitReason: WaitReason =
    balance.waitReason ?? (tokenNeed.spec.kind === "pace" ? "pace" : "rate");
  const restMsMax = waitReason === "closed" ? CLOSED_REST_MS_MAX : REST_MS_MAX;
  return {
    inMs: Math.ceil(Math.min(Math.max(at - now, 1), restMsMax)),
    waitReason,
    key: tokenNeed.key === "" ? null : tokenNeed.key,
  };
}

/** A limit may be raised meanwhile: no chunk stays given back for longer than this. */
const REST_MS_MAX = 300_000;
/** A key may be opened by hand, and the operator expects an effect soon. */
const CLOSED_REST_MS_MAX = 30_000;

const FOREVER = {
  atOnce: 0,
  inMs: [],
  usableMs: Number.POSITIVE_INFINITY,
  nextInMs: 0,
  open: true,
  waitReason: null,
} as const;
