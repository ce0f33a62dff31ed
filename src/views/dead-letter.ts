/** A dead letter: in a list, and alone with its payload. */
import type { Act } from "../core/batch/batch.ts";
import type { ErrorClass } from "../core/base/errors.ts";
import { formatInstant } from "../ports/clock.ts";
import type { BatchSnapshot } from "../ports/store/conductor-store.ts";
import type { DeadLetter } from "../ports/store/query-store.ts";
import type { OpenedDeadLetter } from "../runtime/engine/dead-letter.ts";
import { nameStep } from "./step.ts";

export interface DeadLetterView {
  /** The item's number in its step. */
  readonly item: number;
  readonly key: string | null;
  readonly class: ErrorClass;
  readonly code: string;
  readonly message: string;
  readonly attempts: number;
  /** Processes that died with the item. */
  readonly deaths: number;
  readonly failedAt: string;
  readonly step: string;
  readonly drive: number;
  /** Who accepted the failure. */
  readonly discarded: Act | null;
  readonly edited: boolean;
}

export function viewDeadLetter(letter: DeadLetter, batch: BatchSnapshot): DeadLetterView {
  const { item, key, errorClass, code, message, attempts, deaths, failedAt } = letter;
  const { step, drive, discarded, edited } = letter;
  return {
    item,
    key,
    class: errorClass,
    code,
    message,
    attempts,
    deaths,
    failedAt: formatInstant(failedAt),
    step: nameStep(batch, step),
    drive,
    discarded: discarded === null ? null : { by: discarded.by, why: discarded.why },
    edited,
  };
}

export interface FullDeadLetterView extends DeadLetterView {
  readonly batch: string;
  readonly checkpoint: { readonly name: string; readonly data: unknown } | null;
  /** Null where it cannot be read: then `payloadProblem` says why. */
  readonly payload: unknown;
  readonly payloadProblem: string | null;
}

export function viewDeadLetterFully(
  letter: OpenedDeadLetter,
  batch: BatchSnapshot,
): FullDeadLetterView {
  const { payload = null, payloadProblem, checkpoint } = letter;
  const view = { batch: batch.id, ...viewDeadLetter(letter, batch) };
  return { ...view, checkpoint, payload, payloadProblem };
}

export interface EditedView {
  readonly batch: string;
  readonly item: number;
  readonly step: string;
  readonly edited: true;
  /** Against the step's schema. */
  readonly checked: boolean;
}

export function viewEdited(
  batch: BatchSnapshot,
  step: number,
  item: number,
  checked: boolean,
): EditedView {
  return { batch: batch.id, item, step: nameStep(batch, step), edited: true, checked };
}
