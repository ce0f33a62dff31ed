/**
 * The faults of a world, as small values: each happens once, at the n-th call of its kind. A fault
 * that never happened is reported at the end, because a test that did not meet its fault proves
 * nothing.
 */
import { SluiceError } from "../../core/base/errors.ts";
import { formatDidYouMean, findSimilar } from "../../core/base/similar-words.ts";
import { type FaultPoint, FAULT_WORDS, isFaultPoint, listFaultPoints } from "./fault-points.ts";

export type FaultKind = "crash_before" | "crash_after" | "lose_answer" | "refuse" | "late";

/** Made by `crash`, `loseAnswer`, `refuse` and `late`. */
export interface Fault {
  readonly kind: FaultKind;
  readonly point: FaultPoint;
  /** 1 for the first of its kind that is committed in the world. */
  readonly nth: number;
  /** Only calls of this process count and can fail; null for all. */
  readonly process: string | null;
  /** `late` only: how much later the call reaches the store. */
  readonly byMs: number;
}

export interface FaultTarget {
  /** Only calls of the process with this name count and can fail. */
  readonly process?: string;
}

const LATE_MS_MAX = 365 * 86_400_000;

/** The process dies, as by kill -9. */
export const crash = {
  /** The call was never made. */
  before: (point: FaultPoint, nth: number, target: FaultTarget = {}): Fault =>
    makeFault("crash_before", point, nth, target),
  /** The call was committed, and the process died before the answer. */
  after: (point: FaultPoint, nth: number, target: FaultTarget = {}): Fault =>
    makeFault("crash_after", point, nth, target),
} as const;

/** The call was committed, but its answer is lost: the caller will retry. */
export function loseAnswer(point: FaultPoint, nth: number, target: FaultTarget = {}): Fault {
  return makeFault("lose_answer", point, nth, target);
}

/** The call was not committed, and its caller gets an error: it will retry. */
export function refuse(point: FaultPoint, nth: number, target: FaultTarget = {}): Fault {
  return makeFault("refuse", point, nth, target);
}

/** The call reaches the store this much later; its process continues meanwhile. */
export function late(
  point: FaultPoint,
  nth: number,
  byMs: number,
  target: FaultTarget = {},
): Fault {
  const name = `late(${show(point)}, ${show(nth)}, ${show(byMs)})`;
  if (!Number.isInteger(byMs) || byMs < 1 || byMs > LATE_MS_MAX) {
    throw badFault(name, `byMs must be a whole number from 1 to ${LATE_MS_MAX}`);
  }
  return makeFault("late", point, nth, target, byMs);
}

const CALLS: { readonly [Kind in FaultKind]: string } = {
  crash_before: "crash.before",
  crash_after: "crash.after",
  lose_answer: "loseAnswer",
  refuse: "refuse",
  late: "late",
};

/** As it was written: `crash.after("settle", 3)`. */
export function describeFault({ kind, point, nth, process, byMs }: Fault): string {
  const words = [
    show(point),
    show(nth),
    ...(kind === "late" ? [show(byMs)] : []),
    ...(process === null ? [] : [`{ process: ${show(process)} }`]),
  ];
  return `${CALLS[kind]}(${words.join(", ")})`;
}

function makeFault(
  kind: FaultKind,
  point: FaultPoint,
  nth: number,
  target: FaultTarget,
  byMs = 0,
): Fault {
  const name = `${CALLS[kind]}(${show(point)}, ${show(nth)})`;
  // Also for JavaScript users.
  const given: unknown = point;
  if (typeof given !== "string" || !isFaultPoint(given)) {
    const meant = typeof given === "string" ? findSimilar(given, listFaultPoints()) : [];
    const known = `The points are ${FAULT_WORDS.join(", ")}, and store.<verb> for a call of the store.`;
    throw badFault(name, `${show(given)} is not a fault point`, formatDidYouMean(meant) || known);
  }
  if (!Number.isInteger(nth) || nth < 1) {
    throw badFault(name, "the number must be a whole number, 1 or more: 1 is the first");
  }
  const { process = null, ...rest } = target;
  if (Object.keys(rest).length > 0 || (process !== null && typeof process !== "string")) {
    throw badFault(name, 'only { process: "its name" } can be given beside point and number');
  }
  return Object.freeze({ kind, point, nth, process, byMs });
}

function badFault(
  name: string,
  problem: string,
  hint = "Fix it where the fault is made.",
): SluiceError {
  return new SluiceError("BAD_OPTION", `${name}: ${problem}`, { field: "fault", hint });
}

function show(value: unknown): string {
  return typeof value === "string" || typeof value === "number"
    ? (JSON.stringify(value) ?? String(value))
    : String(value);
}

/** Whether it was made by `crash` and the other functions here. */
export function isFault(value: unknown): value is Fault {
  if (typeof value !== "object" || value === null) return false;
  const { kind, point, nth } = value as Partial<Fault>;
  return (
    typeof kind === "string" && kind in CALLS && typeof point === "string" && nth !== undefined
  );
}
