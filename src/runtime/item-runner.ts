/**
 * Runs items at most `concurrency` at a time. A fixed set of slots pulls the next item from the
 * chunks in hand; a slot whose handler ignores its time limit is abandoned and replaced, so that
 * no item pays for a timer or a race of promises of its own.
 */
import type { Clock } from "../ports/clock.ts";
import type { Random } from "../ports/random.ts";
import type { ChunkRun } from "./chunk-run.ts";
import { Call } from "./item-context.ts";
import { ItemJudge } from "./item-judge.ts";
import { checkItem } from "./item-check.ts";
import type { Log } from "./log.ts";
import { callForChunk } from "./chunk-call.ts";
import type { Step } from "./step.ts";
import { makeSlot, type Slot } from "./slot.ts";
import { TimeLimitSignal } from "./stop-signals.ts";
import { TurnTaker } from "./turn-taker.ts";

export interface RunnerParts {
  readonly step: Step;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly abortGraceMs: number;
  readonly flushItems: number;
}

export interface RunnerListener {
  /** Nothing of the run is left to start and nothing of it runs. */
  onFinished(run: ChunkRun): void;
  /** The last item of a chunk was started: it may be time to lease the next. */
  onUsedUp(): void;
  /** A chunk has many outcomes that the store does not know. */
  onMuchToTell(): void;
  /** A handler says that this worker cannot go on. */
  onFatal(error: unknown): void;
  /** The head of the queue was lost before, and nothing else runs: its turn to run carefully. */
  runCarefully(run: ChunkRun): Promise<void>;
}

export interface Wave {
  readonly indexes: readonly number[];
  /** Runs while every runner of the process is paused. */
  readonly alone: boolean;
  /** Says that the items start; false means that they must not. */
  readonly announce: () => Promise<boolean>;
  /** Says what became of them, before anything else may start. */
  readonly report: () => Promise<void>;
}

/** Gives a slot its next item and answers the position, or -1 when there is none for it. */
type Take = (slot: Slot, now: number) => number;

const WATCH_MIN_MS = 5;
const WATCH_MAX_MS = 1_000;

export class ItemRunner {
  readonly #parts: RunnerParts;
  readonly #listener: RunnerListener;
  readonly #judge: ItemJudge;
  readonly #queue: ChunkRun[] = [];
  readonly #slots = new Set<Slot>();
  readonly #turns: TurnTaker;
  #unstarted = 0;
  #paused = false;
  #carefulRuns = false;
  #cancelWatch: (() => void) | null = null;
  #onQuiet: (() => void)[] = [];
  #onResume: (() => void)[] = [];

  constructor(parts: RunnerParts, listener: RunnerListener) {
    this.#parts = parts;
    this.#listener = listener;
    this.#turns = new TurnTaker(parts.clock);
    this.#judge = new ItemJudge({ ...parts, onFatal: (error) => listener.onFatal(error) });
  }

  /** Items that may still be started. */
  get unstarted(): number {
    return this.#unstarted;
  }

  /** Handler calls under way. */
  get active(): number {
    return this.#slots.size;
  }

  add(runs: readonly ChunkRun[]): void {
    for (const run of runs) {
      this.#queue.push(run);
      this.#unstarted += run.unstarted;
    }
    this.#advance();
  }

  /** Starts nothing until `resume`; resolves when nothing runs any more. */
  async pause(): Promise<void> {
    this.#paused = true;
    if (this.#slots.size > 0) {
      await new Promise<void>((resolve) => {
        this.#onQuiet.push(resolve);
      });
    }
  }

  resume(): void {
    this.#paused = false;
    for (const resolve of this.#onResume.splice(0)) resolve();
    this.#advance();
  }

  /** Starts nothing more of one run. */
  skipRest(run: ChunkRun): void {
    if (run.arrived) this.#unstarted -= run.unstarted;
    run.skipRest();
    const at = this.#queue.indexOf(run);
    if (at !== -1) this.#queue.splice(at, 1);
    this.#advance();
  }

  /** Takes back what was not started. */
  clear(): void {
    this.#unstarted = 0;
    for (const run of this.#queue.splice(0)) {
      run.skipRest();
      if (run.finished) this.#listener.onFinished(run);
    }
    // A careful run between two waves must see that there is nothing more to wait for.
    for (const resolve of this.#onResume.splice(0)) resolve();
  }

  /** Tells handlers to stop: all of them, or those of one run. */
  stop(reason: Error, run?: ChunkRun): void {
    for (const slot of this.#slots) {
      if (run === undefined || slot.run === run) slot.call?.stop(reason);
    }
  }

  /** Gives up on handlers that do not stop, of all runs or of one: their items count as not run. */
  abandon(run?: ChunkRun): void {
    for (const slot of this.#slots) {
      if (run !== undefined && slot.run !== run) continue;
      for (const index of [slot.index, ...slot.more]) slot.run?.abandon(index);
      this.#abandon(slot);
    }
  }

  /** Runs a few items of a careful run at once. */
  async runWave(run: ChunkRun, { indexes, alone, announce, report }: Wave): Promise<void> {
    if (this.#paused && !alone) {
      await new Promise<void>((resolve) => {
        this.#onResume.push(resolve);
      });
    }
    // Counts as running from before the announcement, so that nobody else believes to be alone.
    const place = this.#open();
    try {
      if (!(await announce())) return;
      // `processChunk` gets the wave as one call, `process` gets its items side by side.
      const calls =
        this.#parts.step.processChunk === undefined ? indexes.map((index) => [index]) : [indexes];
      await Promise.all(calls.map((positions) => this.#runNow(run, positions)));
      await report();
    } finally {
      this.#close(place);
    }
  }

  /** One call beside the queue; resolves also when it is given up on. */
  async #runNow(run: ChunkRun, [index = -1, ...more]: readonly number[]): Promise<void> {
    let next = index;
    const take: Take = (slot) => {
      const taken = next;
      next = -1;
      slot.run = run;
      slot.more = more;
      return taken;
    };
    await new Promise<void>((resolve, reject) => {
      this.#serve(this.#open(resolve), take).then(resolve, reject);
    });
  }

  #advance(): void {
    const head = this.#queue[0];
    if (this.#paused || this.#carefulRuns || head === undefined) return;
    if (head.lease.careful) {
      if (this.#slots.size === 0) void this.#runHeadCarefully(head);
      return;
    }
    let startable = this.#unstarted;
    while (startable > 0 && this.#slots.size < this.#parts.step.concurrency) {
      startable--;
      void this.#serve(this.#open(), this.#takeFromQueue);
    }
  }

  async #runHeadCarefully(head: ChunkRun): Promise<void> {
    this.#queue.shift();
    this.#unstarted -= head.unstarted;
    this.#carefulRuns = true;
    await this.#listener.runCarefully(head);
    this.#carefulRuns = false;
    this.#advance();
  }

  /** One slot's life: item after item until there is none for it. */
  async #serve(slot: Slot, take: Take): Promise<void> {
    const { clock, step } = this.#parts;
    while (!slot.abandoned) {
      const now = clock.monotonicMs();
      if (this.#turns.isDue(now)) {
        await this.#turns.take();
        continue;
      }
      const index = take(slot, now);
      const run = slot.run;
      if (index === -1 || run === null) break;
      slot.startedAt = now;
      slot.index = index;
      run.inFlight++;
      if (step.processChunk === undefined) {
        // One attempt at one item: read, check, run, note what became of it.
        try {
          const returned = this.#begin(slot, run, index);
          const value = isThenable(returned) ? await returned : returned;
          if (slot.abandoned) return;
          this.#judge.note(run, index, slot.item, value);
        } catch (error) {
          if (slot.abandoned) return;
          this.#judge.fail(run, index, slot.item, error, slot.call?.stopReason ?? null);
        }
      } else {
        await this.#callForChunk(slot, run);
        if (slot.abandoned) return;
      }
      slot.call = null;
      slot.item = undefined;
      this.#leave(run);
    }
    this.#close(slot);
  }

  /** The next item of the head of the queue. */
  readonly #takeFromQueue: Take = (slot, now) => {
    for (let run = this.#queue[0]; run !== undefined; run = this.#queue[0]) {
      if (this.#paused || run.lease.careful) return -1;
      const index = this.#takeNext(run, now);
      if (index !== -1) {
        slot.run = run;
        if (this.#parts.step.processChunk !== undefined) {
          slot.more = [...this.#takeRest(run, now)];
        }
        return index;
      }
      this.#useUp(run);
    }
    return -1;
  };

  /** Starts the handler; what comes back may have to be awaited. */
  #begin(slot: Slot, run: ChunkRun, index: number): unknown {
    const { itemSchema } = this.#parts.step;
    slot.item = run.items.at(index);
    if (itemSchema !== null) {
      const checked = checkItem(itemSchema, slot.item);
      if (checked instanceof Promise) return this.#callWhenChecked(slot, run, index, checked);
      return this.#call(slot, run, index, checked);
    }
    return this.#call(slot, run, index, slot.item);
  }

  #call(slot: Slot, run: ChunkRun, index: number, item: unknown): unknown {
    slot.item = item;
    slot.call = this.#describeCall(run, index, item);
    return this.#parts.step.process?.(item, slot.call);
  }

  #describeCall(run: ChunkRun, index: number, item: unknown): Call {
    return new Call(run, this.#parts.step, item, index);
  }

  /** A check that takes its time counts as the handler's: it can be stopped, and given up on. */
  async #callWhenChecked(
    slot: Slot,
    run: ChunkRun,
    index: number,
    checked: Promise<unknown>,
  ): Promise<unknown> {
    const call = this.#describeCall(run, index, slot.item);
    slot.call = call;
    const item = await checked;
    if (call.stopReason !== null) throw call.stopReason;
    return this.#call(slot, run, index, item);
  }

  /** A worker checks its own lease before each start. */
  #takeNext(run: ChunkRun, now: number): number {
    const before = run.unstarted;
    if (now >= run.leaseUntil) run.lose();
    if (run.lost) run.skipRest();
    const index = run.takeNext();
    this.#unstarted -= before - run.unstarted;
    return index;
  }

  *#takeRest(run: ChunkRun, now: number): Generator<number> {
    for (let index = this.#takeNext(run, now); index !== -1; index = this.#takeNext(run, now)) {
      yield index;
    }
  }

  #useUp(run: ChunkRun): void {
    if (this.#queue[0] === run) this.#queue.shift();
    if (run.finished) this.#listener.onFinished(run);
    this.#listener.onUsedUp();
  }

  async #callForChunk(slot: Slot, run: ChunkRun): Promise<void> {
    await callForChunk(this.#parts.step, run, [slot.index, ...slot.more], slot, {
      note: (index, item, outcome) => this.#judge.note(run, index, item, outcome),
      fail: (index, item, error) =>
        this.#judge.fail(run, index, item, error, slot.call?.stopReason ?? null),
    });
  }

  #leave(run: ChunkRun): void {
    run.inFlight--;
    if (run.finished) {
      // Out of the queue, where it would be found used up and finished once more.
      if (this.#queue[0] === run) this.#queue.shift();
      this.#listener.onFinished(run);
    } else if (run.unreported >= this.#parts.flushItems) this.#listener.onMuchToTell();
  }

  #open(onAbandon: () => void = () => undefined): Slot {
    const slot = makeSlot(this.#parts.clock.monotonicMs(), onAbandon);
    this.#slots.add(slot);
    this.#cancelWatch ??= this.#watchLater();
    return slot;
  }

  #close(slot: Slot): void {
    if (!this.#slots.delete(slot)) return;
    slot.run = null;
    if (this.#slots.size === 0) {
      this.#cancelWatch?.();
      this.#cancelWatch = null;
      for (const resolve of this.#onQuiet.splice(0)) resolve();
      this.#advance();
    }
  }

  #watchLater(): () => void {
    const { clock, step } = this.#parts;
    const everyMs = Math.min(Math.max(step.timeLimitMs / 4, WATCH_MIN_MS), WATCH_MAX_MS);
    return clock.after(everyMs, () => {
      this.#cancelWatch = this.#watchLater();
      this.#watchTimes();
    });
  }

  /** Handlers past their limit are told to stop, and after a grace time given up on. */
  #watchTimes(): void {
    const { clock, step, abortGraceMs } = this.#parts;
    const now = clock.monotonicMs();
    for (const slot of this.#slots) {
      const overMs = now - slot.startedAt - step.timeLimitMs;
      if (slot.call === null || overMs < 0) continue;
      slot.call.stop(new TimeLimitSignal(step.timeLimitMs));
      if (overMs >= abortGraceMs) this.#abandon(slot);
    }
  }

  #abandon(slot: Slot): void {
    const { run, call } = slot;
    slot.abandoned = true;
    call?.giveUp();
    slot.onAbandon();
    this.#close(slot);
    if (run === null || call === null) return;
    for (const index of [slot.index, ...slot.more]) {
      // Of a chunk's items some may have been found bad before its handler was called.
      if (run.isPending(index)) {
        this.#judge.fail(run, index, undefined, call.stopReason, call.stopReason);
      }
    }
    this.#leave(run);
    this.#advance();
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === "object" &&
    value !== null &&
    "then" in value &&
    typeof value.then === "function"
  );
}
