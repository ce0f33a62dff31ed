/** What may go wrong with a call of the store, and when it does. */
import type { Random } from "../src/ports/random.ts";
import type { StoreVerb } from "../src/ports/store-verbs.ts";

export type Fault =
  /** The node dies and the call was never made. */
  | { readonly kind: "crash_before" }
  /** The call is committed and the node dies before it hears of it. */
  | { readonly kind: "crash_after" }
  /** The call is committed, and the caller is told that it may try again. */
  | { readonly kind: "lost_reply" }
  /** The call is not committed, and the caller is told that it may try again. */
  | { readonly kind: "refused" }
  /** The call takes its time to get there. */
  | { readonly kind: "late"; readonly byMs: number };

export type FaultKind = Fault["kind"];

export interface CallFacts {
  readonly node: string;
  /** 1 for a node's first start. */
  readonly life: number;
  /** Counts the calls of this life, from 1. */
  readonly number: number;
  readonly verb: StoreVerb;
}

export type FaultPlan = (call: CallFacts) => Fault | null;

export const noFaults: FaultPlan = () => null;

/** One fault, at one call of a node's first life. */
export function faultAtCall(node: string, number: number, fault: Fault): FaultPlan {
  return (call) => (call.node === node && call.life === 1 && call.number === number ? fault : null);
}

/** The same fault at every call of these verbs, for as long as `when` says. */
export function faultAtVerbs(
  verbs: readonly StoreVerb[],
  fault: Fault,
  when: (call: CallFacts) => boolean = () => true,
): FaultPlan {
  return (call) => (verbs.includes(call.verb) && when(call) ? fault : null);
}

/** How many of a thousand calls meet each fault, and how many faults there are at most. */
export interface FaultMix {
  readonly perMille: { readonly [Kind in FaultKind]: number };
  readonly lateMaxMs: number;
  readonly faultsMax: number;
}

export function mixedFaults(mix: FaultMix, random: Random): FaultPlan {
  let left = mix.faultsMax;
  return () => {
    let drawn = random.next() * 1_000;
    const lateness = random.next();
    for (const kind of Object.keys(mix.perMille) as FaultKind[]) {
      drawn -= mix.perMille[kind];
      if (drawn >= 0) continue;
      if (left <= 0) return null;
      left--;
      return kind === "late" ? { kind, byMs: Math.ceil(lateness * mix.lateMaxMs) } : { kind };
    }
    return null;
  };
}
