/**
 * The context of one handler call, and the way to stop it. There is one for each of millions of
 * items, so a signal or a key is made only when the handler asks for it.
 */
import { PermanentError, SluiceError } from "../../core/base/errors.ts";
import { invariant } from "../../core/base/invariant.ts";
import type { ItemStatement } from "../../core/items/item-commit.ts";
import type { ItemMessage } from "../../core/items/item-message.ts";
import type { ChunkRun } from "../chunk/chunk-run.ts";
import type { ItemContext } from "../pipeline/contexts.ts";
import { CpuCall } from "../cpu/cpu-call.ts";
import { MessageBuffer } from "../chunk/message-buffer.ts";
import { refuseState } from "../chunk/ledger-lines.ts";
import { recordState } from "../chunk/record-state.ts";
import { StatementBuffer } from "../chunk/statement-buffer.ts";
import type { RunFacts } from "../chunk/run-facts.ts";
import type { Step } from "../pipeline/step.ts";
import { StopSignal } from "../system/stop-signals.ts";
import type { Trace } from "../observing/tracing.ts";

const NO_MESSAGES: readonly ItemMessage[] = [];
const NO_STATEMENTS: readonly ItemStatement[] = [];

export class HandlerCall implements ItemContext {
  readonly #run: ChunkRun;
  readonly #step: Step;
  readonly #item: unknown;
  /** Position in the chunk. */
  readonly #position: number;
  #controller: AbortController | null = null;
  #stopReason: Error | null = null;
  /** Its span, if tracing is on. */
  #trace: Trace | null = null;
  #isGivenUp = false;
  #isOver = false;
  /** By position; made when something is emitted. */
  #emitted: Map<number, MessageBuffer> | null = null;
  /** By position; made when a statement is queued. */
  #queued: Map<number, StatementBuffer> | null = null;

  /** Made when a CPU task is started. */
  #cpu: CpuCall | null = null;

  constructor(run: ChunkRun, step: Step, item: unknown, position: number) {
    this.#run = run;
    this.#step = step;
    this.#item = item;
    this.#position = position;
  }

  get batch(): string {
    return this.#run.facts.batch;
  }

  get lane(): string {
    return this.#run.facts.lane;
  }

  get step(): string {
    return this.#step.name;
  }

  get index(): number {
    return this.#run.lease.start + this.#position;
  }

  get attempt(): number {
    return this.#run.countAttempts(this.#position) + 1;
  }

  get drive(): number {
    return this.#run.getDrive(this.#position);
  }

  get final(): boolean {
    return this.#run.lease.final;
  }

  get fence(): number {
    return this.#run.facts.fence;
  }

  get key(): string | null {
    return this.#step.readKey(this.#item);
  }

  get idempotencyKey(): string {
    return makeIdempotencyKey(this.#run.facts, this.index);
  }

  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#stopReason !== null) this.#controller.abort(this.#stopReason);
    }
    return this.#controller.signal;
  }

  get lastCheckpoint(): ItemContext["lastCheckpoint"] {
    const last = this.#run.getCheckpoint(this.#position);
    return last === null ? null : { name: last.name, data: JSON.parse(last.data) as unknown };
  }

  /** Bound, as handlers destructure their context. */
  get checkpoint(): ItemContext["checkpoint"] {
    return async (name, data) => {
      // The item may be running again elsewhere, or be a dead letter: this call must not affect it.
      if (this.#isGivenUp) throw this.#stopReason ?? new StopSignal("its handler was abandoned");
      await this.#run.saveCheckpoint(this.#position, this.key, name, data);
    };
  }

  /** Bound, as handlers destructure their context. */
  get emit(): ItemContext["emit"] {
    return (topic, message) => this.emitFor(this.#position, topic, message);
  }

  /** For one of the items of a `processChunk` call. */
  emitFor(position: number, topic: string, message: unknown): void {
    this.#refuseLate(position, "emit", `emitted to ${topic}`);
    this.#emitted ??= new Map();
    const messageBuffer =
      this.#emitted.get(position) ?? new MessageBuffer(position, this.#step.topics.emit);
    this.#emitted.set(position, messageBuffer);
    messageBuffer.add(topic, message, this.traceparent);
  }

  listEmitted(position: number): readonly ItemMessage[] {
    return this.#emitted?.get(position)?.list() ?? NO_MESSAGES;
  }

  /** Bound, as handlers destructure their context. */
  get commitWith(): ItemContext["commitWith"] {
    return (sql, values) => this.commitFor(this.#position, sql, values);
  }

  /** For one of the items of a `processChunk` call. */
  commitFor(position: number, sql: string, values?: readonly unknown[]): void {
    this.#refuseLate(position, "commitWith", "called commitWith");
    if (!this.#run.facts.hasSql) throw refuseWithoutSql();
    this.#queued ??= new Map();
    const queued = this.#queued.get(position) ?? new StatementBuffer();
    this.#queued.set(position, queued);
    queued.add(sql, values);
  }

  listStatements(position: number): readonly ItemStatement[] {
    return this.#queued?.get(position)?.list() ?? NO_STATEMENTS;
  }

  /** Bound, as handlers destructure their context. */
  get record(): ItemContext["record"] {
    return (state, details) => this.recordFor(this.#position, this.key, state, details);
  }

  /** For one of the items of a `processChunk` call. */
  recordFor(position: number, key: string | null, state: string, details: unknown): void {
    this.#refuseLate(position, "record", `recorded ${state}`);
    const refused = refuseState(state, this.#step.states);
    if (refused !== null) throw refused;
    recordState(this.#run, position, key, state, details);
  }

  get cpu(): ItemContext["cpu"] {
    const { cpu } = this.#run;
    invariant(cpu !== null, "a run of a step worker has pools");
    this.#cpu ??= new CpuCall(cpu, this.#step, this.signal);
    if (this.#isOver) this.#cpu.end();
    return this.#cpu.run;
  }

  #refuseLate(position: number, call: "emit" | "commitWith" | "record", deed: string): void {
    if (this.#isGivenUp) throw this.#stopReason ?? new StopSignal("its handler was abandoned");
    if (!this.#isOver) return;
    throw new SluiceError(
      "LATE_CALL",
      `the handler of item ${this.#run.lease.start + position} of batch ${this.batch} ${deed} after it had returned`,
      { kind: call, hint: "Await everything that does so before the handler returns." },
    );
  }

  /** Calls the handler of the item. */
  invoke(): unknown {
    const run = this.#run.trace;
    if (run === null) return this.#step.process?.(this.#item, this);
    const attributes = { "sluice.item": this.index, "sluice.attempt": this.attempt };
    return this.#traced(run.startInner("sluice.item", attributes), () =>
      this.#step.process?.(this.#item, this),
    );
  }

  /** Calls a handler that takes several items. */
  invokeForMany<T>(count: number, call: () => T): T {
    const run = this.#run.trace;
    if (run === null) return call();
    return this.#traced(run.startInner("sluice.items", { "sluice.items": count }), call);
  }

  #traced<T>(trace: Trace | null, call: () => T): T {
    this.#trace = trace;
    return trace === null ? call() : trace.run(call);
  }

  /** The place in a trace from which it emits; null without tracing. */
  get traceparent(): string | null {
    return this.#trace?.traceparent ?? null;
  }

  /** The handler has ended and may do nothing more. Returns why it was stopped. */
  end(error?: unknown): Error | null {
    this.#isOver = true;
    this.#cpu?.end();
    this.#trace?.end(error);
    return this.#stopReason;
  }

  /** Tells the handler to stop; the first reason stays. */
  stop(reason: Error): void {
    if (this.#stopReason !== null) return;
    this.#stopReason = reason;
    this.#controller?.abort(reason);
  }

  /** The handler ignored its signal: whatever it does from now on does not count. */
  giveUp(): void {
    this.#isGivenUp = true;
    this.#trace?.end(this.#stopReason ?? new StopSignal("it was abandoned"));
  }

  get stopReason(): Error | null {
    return this.#stopReason;
  }
}

/** Its cause says that a retry would not help. */
function refuseWithoutSql(): SluiceError {
  const message = "commitWith needs a store on SQLite or PostgreSQL; this one has no SQL to run";
  return new SluiceError("STORE_UNSUPPORTED", message, {
    kind: "sql",
    hint: "Open the engine on a SQLite file or a PostgreSQL database, also in tests of this handler.",
    cause: new PermanentError(message),
  });
}

/** The same for every attempt at an item, and different for every other item. */
export function makeIdempotencyKey({ batch, step }: RunFacts, index: number): string {
  return `${batch}/${step}/${index}`;
}
