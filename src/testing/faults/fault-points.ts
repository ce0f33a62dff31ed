/**
 * The points where a fault can happen, in words that users know: a settle, a lease, a submit. Each
 * word tests a call of the store, by its content and its answer. Experts can name the store's own
 * calls instead, as `store.work`.
 */
import { isEnded } from "../../core/batch/batch.ts";
import type { ReportResult } from "../../core/batch/chunk.ts";
import type { ActResult } from "../../ports/store/conductor-store.ts";
import type { PruneResult } from "../../ports/store/operator-store.ts";
import { STORE_VERBS, type StoreVerb } from "../../ports/store/store-verbs.ts";
import type { Report, SweepResult, WorkResult } from "../../ports/store/worker-store.ts";

/** A call of the store that was answered. */
export interface AnsweredCall {
  readonly verb: StoreVerb;
  readonly args: readonly unknown[];
  readonly answer: unknown;
}

interface Word {
  /** Only these calls can match. */
  readonly verbs: readonly StoreVerb[];
  readonly isAt: (call: AnsweredCall) => boolean;
}

const kindOf = ({ answer }: AnsweredCall): string => (answer as { readonly kind: string }).kind;
const isDone = (call: AnsweredCall): boolean => kindOf(call) === "done";
const always = (): boolean => true;
const answersTrue = ({ answer }: AnsweredCall): boolean => answer === true;

/** Whether a report of a `work` call ended like this, with the given content. */
function hasReport(
  { args, answer }: AnsweredCall,
  results: readonly ReportResult[],
  carries: (report: Report) => boolean = always,
): boolean {
  const reports = args[0] as readonly Report[];
  return (answer as WorkResult).reports.some(
    (result, at) => results.includes(result) && carries(reports[at] as Report),
  );
}

function hasLeased(call: AnsweredCall): boolean {
  if (call.verb === "planInline") return kindOf(call) === "leased";
  return (call.answer as WorkResult).leased.length > 0;
}

function hasPlanned(call: AnsweredCall): boolean {
  return kindOf(call) === "planned" || kindOf(call) === "leased";
}

function hasSwept({ answer }: AnsweredCall): boolean {
  const { lostLeases, tended, ended } = answer as SweepResult;
  return lostLeases + tended + ended.length > 0;
}

function hasEnded(call: AnsweredCall): boolean {
  if (call.verb === "work" || call.verb === "sweep") {
    return (call.answer as WorkResult | SweepResult).ended.length > 0;
  }
  return isDone(call) && isEnded((call.answer as ActResult).batch.state);
}

function hasPruned({ answer }: AnsweredCall): boolean {
  const { scratched, removed, messages } = answer as PruneResult;
  return scratched + removed + messages > 0;
}

/**
 * The calls that change something, and when they did. Calls that only say which workers are alive
 * (`claim`, `beat`, `renew`) are left out: a death before or after one is the same as a death
 * before the next commit.
 */
const CHANGES: { readonly [Verb in StoreVerb]?: (call: AnsweredCall) => boolean } = {
  submit: (call) => kindOf(call) === "created",
  startSlicing: isDone,
  plan: hasPlanned,
  planInline: hasPlanned,
  finishSlicing: isDone,
  seal: isDone,
  fail: isDone,
  cancel: isDone,
  pause: answersTrue,
  resume: answersTrue,
  setLanePolicy: always,
  moveInLane: isDone,
  redrive: isDone,
  editDeadLetter: answersTrue,
  discardDeadLetters: ({ answer }) => (answer as number) > 0,
  prune: hasPruned,
  work: (call) => hasReport(call, ["settled", "kept", "yielded"]) || hasLeased(call),
  claimContents: ({ answer }) => answer !== null && (answer as readonly unknown[]).length > 0,
  sweep: hasSwept,
  savePosition: always,
  startReader: always,
  keepUndelivered: always,
  dropUndelivered: always,
  forgetReader: answersTrue,
  rewindReader: answersTrue,
};

const WORDS = {
  /** Anything that changed something. */
  commit: {
    verbs: Object.keys(CHANGES) as StoreVerb[],
    isAt: (call) => CHANGES[call.verb]?.(call) === true,
  },
  /** A batch was recorded. */
  submit: { verbs: ["submit"], isAt: (call) => kindOf(call) === "created" },
  /** The slicing of a step was started, or finished. */
  slice: { verbs: ["startSlicing", "finishSlicing"], isAt: isDone },
  /** Chunks were written. */
  plan: { verbs: ["plan", "planInline"], isAt: hasPlanned },
  /** The last outcomes of a chunk were committed. */
  settle: { verbs: ["work"], isAt: (call) => hasReport(call, ["settled"]) },
  /** Something about a chunk was committed, and its worker kept it. */
  flush: { verbs: ["work"], isAt: (call) => hasReport(call, ["kept"]) },
  /** A chunk went back with unfinished items: they wait for a retry, or for another worker. */
  giveBack: { verbs: ["work"], isAt: (call) => hasReport(call, ["yielded"]) },
  /** A handler's checkpoint was committed. */
  checkpoint: {
    verbs: ["work"],
    isAt: (call) =>
      hasReport(call, ["settled", "kept", "yielded"], ({ checkpoints }) => checkpoints.length > 0),
  },
  /** Chunks were given to a worker. */
  lease: { verbs: ["work", "planInline"], isAt: hasLeased },
  /** Leases were extended. */
  renew: { verbs: ["renew"], isAt: always },
  /** A sweep found something that had expired. */
  sweep: { verbs: ["sweep"], isAt: hasSwept },
  /** A batch ended. */
  end: { verbs: ["work", "sweep", "seal", "fail", "cancel", "finishSlicing"], isAt: hasEnded },
  /** The position of a subscriber was saved, or an event was stored as undelivered. */
  deliver: { verbs: ["savePosition", "keepUndelivered"], isAt: always },
} as const satisfies Record<string, Word>;

export type FaultWord = keyof typeof WORDS;

/** A word, or a call of the store by its name. */
export type FaultPoint = FaultWord | `store.${StoreVerb}`;

export const FAULT_WORDS = Object.keys(WORDS) as FaultWord[];

const RAW = "store.";

export function isFaultPoint(text: string): text is FaultPoint {
  if (Object.hasOwn(WORDS, text)) return true;
  return text.startsWith(RAW) && isVerb(text.slice(RAW.length));
}

function isVerb(text: string): text is StoreVerb {
  return (STORE_VERBS as readonly string[]).includes(text);
}

/** All points, for the hint about a mistyped one. */
export function listFaultPoints(): string[] {
  return [...FAULT_WORDS, ...STORE_VERBS.map((verb) => `${RAW}${verb}`)];
}

/** Whether a call with this name can match the point, as far as known before its answer. */
export function mayBeAt(point: FaultPoint, verb: StoreVerb): boolean {
  if (point.startsWith(RAW)) return point === `${RAW}${verb}`;
  return (WORDS[point as FaultWord].verbs as readonly StoreVerb[]).includes(verb);
}

export function isAt(point: FaultPoint, call: AnsweredCall): boolean {
  if (!mayBeAt(point, call.verb)) return false;
  return point.startsWith(RAW) || WORDS[point as FaultWord].isAt(call);
}

/** Describes a commit in the words above: `settle + lease`. */
export function describeCommit(call: AnsweredCall): string {
  const words = FAULT_WORDS.filter((word) => word !== "commit" && isAt(word, call));
  return words.length > 0 ? words.join(" + ") : `${RAW}${call.verb}`;
}
