/** What kinds of calls a store has, for the world. */
import type { StoreVerb } from "../src/ports/store/store-verbs.ts";
import type { SweepResult } from "../src/ports/store/worker-store.ts";

/** Whether the trace should have the answer: a query that found nothing is left out. */
export function isChange(verb: StoreVerb, answer: unknown): boolean {
  switch (verb) {
    case "submit":
    case "startSlicing":
    case "plan":
    case "finishSlicing":
    case "planInline":
    case "seal":
    case "fail":
    case "cancel":
    case "pause":
    case "resume":
    case "setLanePolicy":
    case "moveInLane":
    case "redrive":
    case "editDeadLetter":
    case "discardDeadLetters":
      return true;
    case "work": {
      const { reports, leased } = answer as { reports: unknown[]; leased: unknown[] };
      return reports.length + leased.length > 0;
    }
    case "sweep": {
      const { lostLeases, tended, ended } = answer as SweepResult;
      return lostLeases + tended + ended.length > 0;
    }
    default:
      return false;
  }
}

/** Queries change nothing. */
export function isReading(verb: StoreVerb): boolean {
  return /^(get|list|find|read|recount)/.test(verb);
}
