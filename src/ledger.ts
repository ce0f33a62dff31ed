/** `sluice/ledger`: verifying, reading and proving ledgers from their exports, without the engine. */
export { checkConsistency, checkProof, type ProofVerdict } from "./ledger/verify/check-proof.ts";
export { proveConsistency, proveRecord } from "./ledger/verify/proof.ts";
export {
  type ItemHistory,
  readItemHistories,
  readTimeline,
  type TimelineEntry,
} from "./ledger/verify/timeline.ts";
export { describeVerdict, isConclusive, type Verdict } from "./ledger/verify/verdict.ts";
export { verifyExport } from "./ledger/verify/verify-export.ts";
