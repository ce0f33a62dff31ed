/**
 * Runs at most `concurrency` items at a time. A fixed set of slots takes the next item from the
 * held chunks. A slot whose handler ignores its time limit is abandoned and replaced, so that no
 * item needs its own timer or promise race.
 */
import type { ChunkRun } from "../chunk/chunk-run.ts";
import { HandlerCall } from "./item-context.ts";
import { OutcomeClassifier } from "./outcome-classifier.ts";
import { checkItem } from "../pipeline/item-check.ts";
import { callForChunk } from "./chunk-call.ts";
import type { ItemLoopListener, ItemLoopParts, Wave } from "./item-loop-parts.ts";
import { isThenable } from "../system/thenable.ts";
import { RunQueue } from "./run-queue.ts";
import { makeSlot, type Slot } from "./slot.ts";
import { StopSignal } from "../system/stop-signals.ts";
import { TimeoutWatcher } from "./timeout-watcher.ts";
import { EventLoopYield } from "./event-loop-yield.ts";

/** Gives a slot its next item and returns its position, or -1 for none. */
type Take = (slot: Slot, now: number) => number;

export class ItemLoop {
  readonly #parts: ItemLoopParts;
  readonly #listener: ItemLoopListener;
  readonly #judge: OutcomeClassifier;
  readonly #queue: RunQueue;
  readonly #slots = new Set<Slot>();
  readonly #turns: EventLoopYield;
  #paused = false;
  /** Nothing starts any more. */
  #cleared = false;
  #guardedRuns = false;
  readonly #watch: TimeoutWatcher;
  #onQuiet: (() => void)[] = [];
  #onResume: (() => void)[] = [];

  constructor(parts: ItemLoopParts, listener: ItemLoopListener) {
    this.#parts = parts;
    this.#listener = listener;
    const takesAll = parts.step.processChunk !== undefined;
    this.#queue = new RunQueue(parts.permits, takesAll, {
      onUsedUp: (run) => this.#useUp(run),
      onExpired: (run) => listener.onExpired(run),
    });
    this.#turns = new EventLoopYield(parts.clock);
    this.#watch = new TimeoutWatcher(this.#slots, {
      ...parts,
      timeLimitMs: parts.step.timeLimitMs,
      abandon: (slot) => this.#abandon(slot),
    });
    this.#judge = new OutcomeClassifier({
      ...parts,
      onFatal: (error) => listener.onFatal(error),
      onThrottled: (item, forMs) => listener.onThrottled(item, forMs),
      onOutage: (run) => listener.onOutage(run),
    });
  }

  /** Items that may still start, without those that wait long for a limit. */
  get unstarted(): number {
    return this.#queue.unstarted + this.#parts.rights.soon;
  }

  /** Fails an item that cannot even start. */
  refuse(run: ChunkRun, index: number, item: unknown, error: unknown): void {
    this.#judge.fail(run, index, item, error, null);
  }

  /** Whether a free slot may be used: not while something runs alone or guarded. */
  get isOpen(): boolean {
    return !this.#paused && !this.#guardedRuns;
  }

  /** Handler calls under way. */
  get active(): number {
    return this.#slots.size;
  }

  add(runs: readonly ChunkRun[]): void {
    for (const run of runs) this.#queue.add(run);
    this.advance();
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
    this.advance();
  }

  /** Starts no more items of one run. */
  skipRest(run: ChunkRun): void {
    this.#queue.drop(run);
    this.#parts.rights.drop(run);
    this.advance();
  }

  /** Takes back everything that was not started. */
  clear(): void {
    for (const run of [...this.#queue.clear(), ...this.#parts.rights.clear()]) {
      run.skipRest();
      if (run.finished) this.#listener.onFinished(run);
    }
    // A guarded run between two waves must notice that it will never continue, and so must one that
    // is about to start its next wave.
    this.#cleared = true;
    for (const resolve of this.#onResume.splice(0)) resolve();
  }

  /** Tells handlers to stop: all of them, or those of one run. */
  stop(reason: Error, run?: ChunkRun): void {
    for (const slot of this.#slots) {
      if (run === undefined || slot.run === run) slot.handlerCall?.stop(reason);
    }
  }

  /** Abandons handlers that do not stop, of all runs or of one: their items count as not run. */
  abandon(run?: ChunkRun): void {
    for (const slot of this.#slots) {
      if (run !== undefined && slot.run !== run) continue;
      for (const index of [slot.index, ...slot.more]) slot.run?.abandon(index);
      this.#abandon(slot);
    }
  }

  /** Runs a few items of a guarded run at once. */
  async runWave(run: ChunkRun, { indexes, alone, until, announce, report }: Wave): Promise<void> {
    if (this.#paused && !alone && !this.#cleared) {
      await new Promise<void>((resolve) => {
        this.#onResume.push(resolve);
      });
    }
    // Counts as running before the announcement, so that no other run believes to be alone.
    const place = this.#open();
    try {
      if (!(await announce())) return;
      // `processChunk` gets the wave as one call, `process` gets its items side by side.
      const calls =
        this.#parts.step.processChunk === undefined ? indexes.map((index) => [index]) : [indexes];
      await Promise.all(calls.map((positions) => this.#runNow(run, positions, until)));
      await report();
    } finally {
      this.#close(place);
    }
  }

  /** One call outside of the queue; resolves also when it is abandoned. */
  async #runNow(run: ChunkRun, positions: readonly number[], until: number): Promise<void> {
    let [next = -1] = positions;
    const { permits } = this.#parts;
    const take: Take = (slot, now) => {
      if (permits.areNeeded && !permits.mayStartReserved(run, now)) return -1;
      const taken = next;
      next = -1;
      slot.run = run;
      slot.more = positions.slice(1);
      slot.startUntil = until;
      return taken;
    };
    await new Promise<void>((resolve, reject) => {
      this.#serve(this.#open(resolve), take).then(resolve, reject);
    });
  }

  /** Starts everything that may start. */
  advance(): void {
    // Called after every item where a cap is as large as the number of slots.
    if (this.#slots.size >= this.#parts.controller.slots || !this.isOpen) return;
    if (this.#queue.head?.lease.guarded === true) {
      if (this.#slots.size === 0) void this.#runHeadGuarded();
      return;
    }
    const { rights, clock, controller } = this.#parts;
    const now = clock.monotonicMs();
    let startable = this.unstarted;
    // A slot that found nothing may have left room for a guarded run.
    while (this.isOpen && this.#slots.size < controller.slots) {
      if (!rights.canTake(now) && !this.#queue.canTake(now)) break;
      void this.#serve(this.#open(), this.#takeFromQueue);
      startable--;
      // Another item loop may have its turn first: open no more slots than could find work.
      if (startable <= 0 && this.#turns.isDue(now)) break;
    }
    // A slot that became free without its handler's end has not asked for tokens.
    if (this.#slots.size < controller.slots) rights.request();
  }

  async #runHeadGuarded(): Promise<void> {
    const head = this.#queue.takeHead();
    if (head === undefined) return;
    this.#guardedRuns = true;
    await this.#listener.runGuarded(head);
    this.#guardedRuns = false;
    this.advance();
  }

  /** The life of one slot: item after item until there is none for it. */
  async #serve(slot: Slot, take: Take): Promise<void> {
    const { clock, step, controller, permits, pulse } = this.#parts;
    let worked: ChunkRun | null = null;
    while (!slot.abandoned) {
      const now = clock.monotonicMs();
      // The clock is read once: the start of the next item is the end of the last one.
      if (worked !== null) worked.addBusyTime(now - slot.startedAt);
      worked = null;
      if (this.#turns.isDue(now)) {
        await this.#turns.take();
        continue;
      }
      const index = take(slot, now);
      const run = slot.run;
      if (index === -1 || run === null) break;
      slot.startedAt = now;
      pulse?.begin(now);
      slot.index = index;
      run.inFlight++;
      if (permits.areNeeded) permits.start(run);
      if (step.processChunk === undefined) {
        // One attempt at one item: read, check, run, note its outcome.
        try {
          const returned = this.#begin(slot, run, index);
          const value = isThenable(returned) ? await returned : returned;
          if (slot.abandoned) return;
          this.#judge.note(run, index, slot.item, value, slot.handlerCall);
        } catch (error) {
          if (slot.abandoned) return;
          this.#judge.fail(run, index, slot.item, error, slot.handlerCall?.end(error) ?? null);
        }
      } else {
        await this.#callForChunk(slot, run);
        if (slot.abandoned) return;
      }
      slot.handlerCall = null;
      slot.item = undefined;
      worked = run;
      this.#leave(slot, run);
      if (controller.isAdaptive && !this.#mayGoOn(slot)) break;
    }
    this.#close(slot);
  }

  /** False when there are too many slots now; when there are too few, others are opened. */
  #mayGoOn({ startedAt }: Slot): boolean {
    const { clock, controller } = this.#parts;
    controller.noteCall(clock.monotonicMs() - startedAt, this.#slots.size);
    if (this.#slots.size < controller.slots) this.advance();
    return this.#slots.size <= controller.slots;
  }

  /** The next item that has the right to start, or that of the head of the queue. */
  readonly #takeFromQueue: Take = (slot, now) => {
    if (this.#paused) return -1;
    slot.startUntil = null;
    const { rights } = this.#parts;
    // A guarded run waits until nothing else runs.
    if (!rights.isIdle && this.#queue.head?.lease.guarded !== true) {
      const limited = this.#takeLimited(slot, now);
      if (limited !== -1) return limited;
    }
    const index = this.#queue.take(slot, now);
    // All remaining items may wait for a limit: then it is time for other work.
    if (index === -1 && rights.soon > 0) this.#listener.onUsedUp();
    return index;
  };

  #takeLimited(slot: Slot, now: number): number {
    const right = this.#parts.rights.take(now);
    if (right === null) return -1;
    slot.run = right.run;
    slot.startUntil = right.until;
    if (this.#parts.step.processChunk !== undefined) {
      slot.more = this.#takeMore(slot, right.run, now);
    }
    return right.index;
  }

  /** Further items of the run with the right to start, for a call that takes several items. */
  #takeMore(slot: Slot, run: ChunkRun, now: number): number[] {
    const { rights } = this.#parts;
    const more: number[] = [];
    for (let right = rights.take(now, run); right !== null; right = rights.take(now, run)) {
      more.push(right.index);
      slot.startUntil = Math.min(slot.startUntil ?? right.until, right.until);
    }
    return more;
  }

  /** Starts the handler; its return value may have to be awaited. */
  #begin(slot: Slot, run: ChunkRun, index: number): unknown {
    const { itemSchema } = this.#parts.step;
    slot.item = run.items.at(index);
    if (itemSchema === null) return this.#call(slot, run, index, slot.item);
    const checked = checkItem(itemSchema, slot.item);
    if (checked instanceof Promise) return this.#callWhenChecked(slot, run, index, checked);
    return this.#call(slot, run, index, checked);
  }

  #call(slot: Slot, run: ChunkRun, index: number, item: unknown): unknown {
    slot.item = item;
    slot.handlerCall = new HandlerCall(run, this.#parts.step, item, index);
    return slot.handlerCall.invoke();
  }

  /** A slow check counts as the handler's time: it can be stopped and abandoned. */
  async #callWhenChecked(
    slot: Slot,
    run: ChunkRun,
    index: number,
    checked: Promise<unknown>,
  ): Promise<unknown> {
    const handlerCall = new HandlerCall(run, this.#parts.step, slot.item, index);
    slot.handlerCall = handlerCall;
    const item = await checked;
    if (this.#isLate(slot, run)) handlerCall.stop(new StopSignal("its right to start has expired"));
    if (handlerCall.stopReason !== null) throw handlerCall.stopReason;
    return this.#call(slot, run, index, item);
  }

  /** During the check its lease expired, or the right to start from its limits. */
  #isLate({ startUntil, startedAt }: Slot, run: ChunkRun): boolean {
    if (run.isLostAt(this.#parts.clock.monotonicMs())) return true;
    return startUntil !== null && this.#parts.rights.isLate(startUntil, startedAt);
  }

  #useUp(run: ChunkRun): void {
    if (run.finished) this.#listener.onFinished(run);
    this.#listener.onUsedUp();
  }

  async #callForChunk(slot: Slot, run: ChunkRun): Promise<void> {
    await callForChunk(this.#parts.step, run, [slot.index, ...slot.more], slot, {
      isLate: () => this.#isLate(slot, run),
      note: (index, item, outcome) => this.#judge.note(run, index, item, outcome, slot.handlerCall),
      fail: (index, item, error) =>
        this.#judge.fail(run, index, item, error, slot.handlerCall?.stopReason ?? null),
    });
  }

  #leave({ more, startedAt }: Slot, run: ChunkRun): void {
    this.#parts.pulse?.end(startedAt, this.#parts.clock.monotonicMs());
    run.inFlight--;
    run.tried += 1 + more.length;
    this.#parts.rights.ended++;
    if (this.#parts.permits.areNeeded) this.#parts.permits.end(run);
    if (run.finished) {
      // Removed from the queue, where it would be found used up and finished once more.
      this.#queue.leave(run);
      this.#listener.onFinished(run);
      return;
    }
    // All its remaining items may wait for a limit.
    if (run.inFlight === 0 && run.waiting > 0) this.#parts.rights.review();
    if (run.unreported >= this.#parts.flushItems) this.#listener.onReportDue();
  }

  #open(onAbandon: () => void = () => undefined): Slot {
    const slot = makeSlot(this.#parts.clock.monotonicMs(), onAbandon);
    this.#slots.add(slot);
    this.#watch.start();
    return slot;
  }

  #close(slot: Slot): void {
    if (!this.#slots.delete(slot)) return;
    slot.run = null;
    if (this.#slots.size === 0) {
      this.#watch.stop();
      for (const resolve of this.#onQuiet.splice(0)) resolve();
      this.advance();
    }
  }

  #abandon(slot: Slot): void {
    const { run, handlerCall } = slot;
    slot.abandoned = true;
    handlerCall?.giveUp();
    slot.onAbandon();
    this.#close(slot);
    if (run === null || handlerCall === null) return;
    run.addBusyTime(this.#parts.clock.monotonicMs() - slot.startedAt);
    for (const index of [slot.index, ...slot.more]) {
      // Some items of a chunk may have been found bad before its handler was called.
      if (run.isPending(index)) {
        this.#judge.fail(run, index, undefined, handlerCall.stopReason, handlerCall.stopReason);
      }
    }
    this.#leave(slot, run);
    this.advance();
  }
}
