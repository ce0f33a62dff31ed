/** Keeps the pending faults, and decides at each call of the store whether one happens. */
import type { StoreVerb } from "../../ports/store/store-verbs.ts";
import { isAt, mayBeAt } from "./fault-points.ts";
import type { Fault, FaultKind } from "./faults.ts";

export interface DeskCall {
  /** The process that makes the call. */
  readonly process: string;
  readonly verb: StoreVerb;
  readonly args: readonly unknown[];
}

/** Asks what the store would answer; null when the call would fail. */
export type Rehearse = (call: DeskCall) => Promise<{ readonly answer: unknown } | null>;

interface Pending {
  readonly fault: Fault;
  /** Calls of its kind that have been committed. */
  seen: number;
}

const STRIKES_BEFORE: ReadonlySet<FaultKind> = new Set(["crash_before", "refuse", "late"]);

export class FaultDesk {
  #pending: Pending[];
  readonly #rehearse: Rehearse;

  constructor(faults: readonly Fault[], rehearse: Rehearse) {
    this.#pending = faults.map((fault) => ({ fault, seen: 0 }));
    this.#rehearse = rehearse;
  }

  /** The faults that have not happened. */
  get left(): readonly Fault[] {
    return this.#pending.map(({ fault }) => fault);
  }

  /**
   * The call has reached the store and has not been made: the fault that happens before it, if any.
   */
  async findBefore(call: DeskCall): Promise<Fault | null> {
    const due = this.#pending.filter(
      ({ fault, seen }) =>
        STRIKES_BEFORE.has(fault.kind) &&
        seen === fault.nth - 1 &&
        isMeant(fault, call) &&
        mayBeAt(fault.point, call.verb),
    );
    if (due.length === 0) return null;
    const rehearsed = await this.#rehearse(call);
    if (rehearsed === null) return null;
    return this.#take(due.find(({ fault }) => isAt(fault.point, { ...call, ...rehearsed })));
  }

  /** The call was made: counts it, and returns the fault that happens after it, if any. */
  noteMade(call: DeskCall, answer: unknown): Fault | null {
    const met = this.#pending.filter(
      ({ fault }) => isMeant(fault, call) && isAt(fault.point, { ...call, answer }),
    );
    for (const pending of met) pending.seen++;
    return this.#take(
      met.find(({ fault, seen }) => !STRIKES_BEFORE.has(fault.kind) && seen === fault.nth),
    );
  }

  #take(struck: Pending | undefined): Fault | null {
    if (struck === undefined) return null;
    this.#pending = this.#pending.filter((pending) => pending !== struck);
    return struck.fault;
  }
}

function isMeant(fault: Fault, call: DeskCall): boolean {
  return fault.process === null || fault.process === call.process;
}
