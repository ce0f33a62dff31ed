/** What may go wrong with a call of the store, and when. */
import type { Random } from "../src/ports/random.ts";
import type { StoreVerb } from "../src/ports/store/store-verbs.ts";

export type Fault =
  /** The node dies before the call reaches the store. */
  | { readonly kind: "crash_before" }
  /** The store commits the call, and the node dies before it gets the answer. */
  | { readonly kind: "crash_after" }
  /** The store commits the call, and the caller gets a retryable error. */
  | { readonly kind: "lost_reply" }
  /** The store does not commit the call, and the caller gets a retryable error. */
  | { readonly kind: "refused" }
  /** The call is late on its way to the store. */
  | { readonly kind: "late"; readonly byMs: number }
  /** The store commits the call, and its answer is late. */
  | { readonly kind: "late_reply"; readonly byMs: number };

export type FaultKind = Fault["kind"];

export const FAULT_KINDS = [
  "crash_before",
  "crash_after",
  "lost_reply",
  "refused",
  "late",
  "late_reply",
] as const satisfies readonly FaultKind[];

export interface CallFacts {
  readonly node: string;
  /** 1 for a node's first start. */
  readonly life: number;
  /** Number of the call in this life of the node, from 1. */
  readonly number: number;
  readonly verb: StoreVerb;
}

export type FaultPlan = (call: CallFacts) => Fault | null;

export const noFaults: FaultPlan = () => null;

/** One fault, at one call of a node's first life. */
export function faultAtCall(node: string, number: number, fault: Fault): FaultPlan {
  return (call) => (call.node === node && call.life === 1 && call.number === number ? fault : null);
}

/** The same fault at every call of these verbs, while `when` is true. */
export function faultAtVerbs(
  verbs: readonly StoreVerb[],
  fault: Fault,
  when: (call: CallFacts) => boolean = () => true,
): FaultPlan {
  return (call) => (verbs.includes(call.verb) && when(call) ? fault : null);
}

/** How many of a thousand calls meet each fault. */
export type FaultRates = { readonly [Kind in FaultKind]: number };

/** The rates, and the largest number of faults. */
export interface FaultMix {
  readonly perMille: FaultRates;
  readonly lateMaxMs: number;
  readonly faultsMax: number;
}

export function mixedFaults(mix: FaultMix, random: Random): FaultPlan {
  let left = mix.faultsMax;
  return () => {
    const drawn = pickKind(mix.perMille, random.next());
    const lateness = random.next();
    if (drawn === null || left <= 0) return null;
    left--;
    return makeFault(drawn, lateness * mix.lateMaxMs);
  };
}

export interface SwarmFaults {
  readonly seed: number;
  readonly perMille: FaultRates;
  readonly lateMaxMs: number;
  /** Places where faults are allowed, as `nameCall` names them; null for all. */
  readonly only: ReadonlySet<string> | null;
}

/**
 * Whether a call meets a fault depends only on its place, not on what happened elsewhere. So the
 * history stays almost the same when one of its faults is left out.
 */
export function swarmFaults({ seed, perMille, lateMaxMs, only }: SwarmFaults): FaultPlan {
  return (call) => {
    const name = nameCall(call);
    if (only !== null && !only.has(name)) return null;
    const hashed = hashText(name, seed);
    // The operator calls seldom: without a higher rate some of its calls would never meet a fault.
    const kind = pickKind(perMille, call.node === OPERATOR ? hashed / OPERATOR_FAULTS : hashed);
    return kind === null ? null : makeFault(kind, hashText(`${name} late`, seed) * lateMaxMs);
  };
}

/** The node on which the operator runs. */
export const OPERATOR = "op";
const OPERATOR_FAULTS = 8;

export function nameCall({ node, life, number }: CallFacts): string {
  return `${node}.${life}#${number}`;
}

function pickKind(perMille: FaultRates, drawn: number): FaultKind | null {
  let left = drawn * 1_000;
  for (const kind of FAULT_KINDS) {
    left -= perMille[kind];
    if (left < 0) return kind;
  }
  return null;
}

function makeFault(kind: FaultKind, byMs: number): Fault {
  return kind === "late" || kind === "late_reply" ? { kind, byMs: Math.ceil(byMs) } : { kind };
}

/** FNV-1a with a final mix: even enough, and fast. In [0, 1). */
function hashText(text: string, seed: number): number {
  let sum = (2_166_136_261 ^ seed) >>> 0;
  for (let at = 0; at < text.length; at++) {
    sum = Math.imul(sum ^ text.charCodeAt(at), 16_777_619);
  }
  sum = Math.imul(sum ^ (sum >>> 15), 0x2c1b3c6d);
  sum = Math.imul(sum ^ (sum >>> 12), 0x297a2d39);
  return ((sum ^ (sum >>> 15)) >>> 0) / 2 ** 32;
}
