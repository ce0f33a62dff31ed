/** Decides the outcome of an item from what its handler returned or threw, and notes it. */
import {
  describeError,
  ERROR_CLASSES,
  type ErrorClass,
  type ErrorFacts,
  TransientError,
} from "../../core/base/errors.ts";
import { unreachable } from "../../core/base/invariant.ts";
import type { ItemCommit } from "../../core/items/item-commit.ts";
import { listSecrets, makeRedact, type Redact } from "../../core/base/redact.ts";
import { decideRetry } from "../../core/base/retry.ts";
import type { ItemMessage } from "../../core/items/item-message.ts";
import type { Random } from "../../ports/random.ts";
import type { ChunkRun } from "../chunk/chunk-run.ts";
import { writeMessage } from "../chunk/message-buffer.ts";
import { isPoolBroken } from "../cpu/cpu-task.ts";
import type { HandlerCall } from "./item-context.ts";
import { readKeyOf } from "../pipeline/item-key.ts";
import type { Log, LogEntry } from "../system/log.ts";
import { readOutcome, readOutcomeKind } from "../pipeline/outcomes.ts";
import { recordSeen } from "../chunk/record-state.ts";
import { redactError } from "../system/redact-error.ts";
import type { Step } from "../pipeline/step.ts";
import { StopSignal, TimeLimitSignal } from "../system/stop-signals.ts";

/** The longest delay that `later` accepts. */
const LATER_MS_MAX = 86_400_000;
/** When an item runs again after it found the CPU pool broken. */
const BROKEN_POOL_MS = 5_000;

export interface OutcomeClassifierParts {
  readonly step: Step;
  readonly random: Random;
  readonly log: Log;
  /** A handler threw a fatal error: this worker cannot continue. */
  readonly onFatal: (error: unknown) => void;
  /** A server throttles, and may say for how long. */
  readonly onThrottled: (item: unknown, forMs: number | null) => void;
  /** The system that a paced batch is sent through is unavailable. */
  readonly onOutage: (run: ChunkRun) => void;
}

export class OutcomeClassifier {
  readonly #parts: OutcomeClassifierParts;

  constructor(parts: OutcomeClassifierParts) {
    this.#parts = parts;
  }

  /** `call` is the one that ended; null for none. */
  note(
    run: ChunkRun,
    index: number,
    item: unknown,
    value: unknown,
    handlerCall: HandlerCall | null = null,
  ): void {
    const outcome = value === undefined ? null : readOutcome(value);
    handlerCall?.end(outcome !== null && "error" in outcome ? outcome.error : undefined);
    if (value === undefined) return this.#succeed(run, index, item, undefined, handlerCall);
    const { step } = this.#parts;
    if (outcome === null) return this.#succeed(run, index, item, value, handlerCall);
    const kind = readOutcomeKind(outcome);
    switch (kind) {
      case "succeeded":
        return this.#succeed(
          run,
          index,
          item,
          "value" in outcome ? outcome.value : undefined,
          handlerCall,
        );
      case "skipped":
        if ("reason" in outcome && outcome.reason !== null)
          this.#logSkip(run, index, outcome.reason);
        recordSeen(run, index, step, item);
        return run.skip(
          index,
          handlerCall?.listEmitted(index),
          this.#describeCommit(run, index, item, handlerCall),
        );
      case "later":
        return run.defer(index, readKeyOf(step, item), readDelay(outcome));
      case "failed":
        return this.#failAsReturned(run, index, item, "error" in outcome ? outcome.error : outcome);
      default:
        return unreachable(kind);
    }
  }

  #succeed(
    run: ChunkRun,
    index: number,
    item: unknown,
    result: unknown,
    handlerCall: HandlerCall | null,
  ): void {
    const { step } = this.#parts;
    const emitted = handlerCall?.listEmitted(index);
    const messages =
      step.topics.route === undefined
        ? emitted
        : this.#route(index, item, result, emitted ?? [], handlerCall?.traceparent ?? null);
    const key = result === undefined ? null : step.readKey(item);
    recordSeen(run, index, step, item);
    run.succeed(index, key, result, messages, this.#describeCommit(run, index, item, handlerCall));
  }

  /** The statements that it queued, and its failure if they fail for a transient reason. */
  #describeCommit(
    run: ChunkRun,
    index: number,
    item: unknown,
    handlerCall: HandlerCall | null,
  ): ItemCommit | null {
    const statements = handlerCall?.listStatements(index) ?? [];
    if (statements.length === 0) return null;
    const { step, random } = this.#parts;
    const counted = { attempts: run.countAttempts(index) + 1 };
    const failed = { ...counted, errorClass: "transient", retryAfterMs: null } as const;
    const decision = decideRetry(step.retry, failed, random.next());
    const retryInMs = decision.kind === "retry" ? decision.delayMs : null;
    return { index, key: readKeyOf(step, item), ...counted, retryInMs, statements };
  }

  /** The message of the step's route, after those that the handler emitted. */
  #route(
    index: number,
    item: unknown,
    result: unknown,
    emitted: readonly ItemMessage[],
    traceparent: string | null,
  ): readonly ItemMessage[] {
    const { step } = this.#parts;
    const topic = step.topics.route?.(item, result) ?? null;
    if (topic === null) return emitted;
    const message = result === undefined ? item : result;
    return [
      ...emitted,
      writeMessage(index, step.topics.emit, { topic, nth: "route", message, traceparent }),
    ];
  }

  #logSkip(run: ChunkRun, index: number, reason: string): void {
    const message = `item ${run.lease.start + index} of batch ${run.lease.batch} was skipped: ${reason}`;
    this.#parts.log({ level: "debug", event: "item.skipped", message, ...locate(run, index) });
  }

  /** A handler may return its signal's reason: we stopped it, and the item has not failed. */
  #failAsReturned(run: ChunkRun, index: number, item: unknown, error: unknown): void {
    const isOurs = error instanceof StopSignal || error instanceof TimeLimitSignal;
    this.fail(run, index, item, error, isOurs ? error : null);
  }

  /** The step's own classification takes precedence over the error's shape. */
  #describe(thrown: unknown, redact: Redact): ErrorFacts {
    const { step, log } = this.#parts;
    const facts = describeError(thrown, redact);
    if (step.classify === undefined) return facts;
    try {
      return { ...facts, errorClass: readClass(step.classify(thrown)) ?? facts.errorClass };
    } catch (error) {
      // An error in `classify` must not hide the failure that it classifies.
      const message = `classify of step ${step.name} threw: ${describeError(error, redact).message}`;
      const safe = redactError(error, redact);
      log({ level: "warn", event: "item.classify_failed", message, error: safe });
      return facts;
    }
  }

  fail(run: ChunkRun, index: number, item: unknown, thrown: unknown, stop: Error | null): void {
    // We stopped it: the item did not fail, it counts as not run. It goes back with its chunk.
    if (stop instanceof StopSignal) return;
    const { step, random, log } = this.#parts;
    // Not the item's fault: no attempt counts.
    if (isPoolBroken(thrown)) {
      return run.defer(index, readKeyOf(step, item), BROKEN_POOL_MS);
    }
    // An error may quote its item: values of secret names in it must not be logged.
    const redact = makeRedact(listSecrets(item));
    const facts =
      stop instanceof TimeLimitSignal
        ? describeError(asTimeout(stop))
        : this.#describe(thrown, redact);
    if (facts.isOutage && run.pace !== null) {
      this.#parts.onOutage(run);
      return run.defer(index, readKeyOf(step, item), run.pace.outageMs);
    }
    const attempts = run.countAttempts(index) + 1;
    const decision = decideRetry(step.retry, { ...facts, attempts }, random.next());
    if (facts.isThrottled) this.#parts.onThrottled(item, facts.retryAfterMs);
    if (facts.errorClass === "unexpected") {
      log(describeUnexpected(run, index, facts, redactError(thrown, redact)));
    }
    switch (decision.kind) {
      case "stop_worker":
        return this.#parts.onFatal(redactError(thrown, redact));
      case "retry":
        return run.fail(index, readKeyOf(step, item), attempts, facts, decision.delayMs);
      case "give_up":
        log(describeGivenUp(run, index, attempts, facts));
        recordSeen(run, index, step, item);
        return run.fail(index, readKeyOf(step, item), attempts, facts, null);
      default:
        return unreachable(decision);
    }
  }
}

/** The class that the step's own function returned, or null. */
function readClass(answer: unknown): ErrorClass | null {
  return ERROR_CLASSES.find((one) => one === answer) ?? null;
}

/** A whole number, as stores keep times in whole milliseconds, and bounded, as every wait is. */
function readDelay(outcome: object): number {
  const inMs = "inMs" in outcome ? Number(outcome.inMs) : 0;
  return Math.ceil(Math.min(Math.max(inMs, 0) || 0, LATER_MS_MAX));
}

function asTimeout(signal: TimeLimitSignal): TransientError {
  return new TransientError(`took longer than its time limit of ${signal.timeLimitMs} ms`, {
    code: "TIME_LIMIT",
  });
}

/** The fields by which an item's log entries are found. */
function locate({ lease }: ChunkRun, index: number): Pick<LogEntry, "batch" | "chunk" | "item"> {
  return { batch: lease.batch, chunk: lease.chunk, item: lease.start + index };
}

function describeGivenUp(
  run: ChunkRun,
  index: number,
  attempts: number,
  { code, message }: ErrorFacts,
): LogEntry {
  const tries = attempts === 1 ? "one attempt" : `${attempts} attempts`;
  return {
    level: "warn",
    event: "item.gave_up",
    message: `item ${run.lease.start + index} of batch ${run.lease.batch} gave up after ${tries}: ${code}: ${message}`,
    ...locate(run, index),
  };
}

function describeUnexpected(
  run: ChunkRun,
  index: number,
  { code, message }: ErrorFacts,
  thrown: unknown,
): LogEntry {
  return {
    level: "warn",
    event: "item.unexpected_error",
    message: `item ${run.lease.start + index} of batch ${run.lease.batch}: ${code}: ${message}`,
    error: thrown,
    ...locate(run, index),
  };
}
