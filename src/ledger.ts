/** `sluice/ledger`: verifying, reading and proving ledgers from their exports, without the engine. */
export { checkConsistency, checkProof } from "./ledger/verify/check-proof.ts";
export type { ConsistencyVerdict, ProofVerdict } from "./ledger/verify/check-proof.ts";
export type { ByteSource } from "./ledger/format/byte-lines.ts";
export type { SignedHead } from "./ledger/format/signed-head.ts";
export { parsePlace, proveConsistency, proveRecord } from "./ledger/verify/proof.ts";
export type { RecordPlace } from "./ledger/verify/proof.ts";
export { readItemHistories, readTimeline } from "./ledger/verify/timeline.ts";
export type {
  BatchEntry,
  DetailsEntry,
  ItemEntry,
  ItemHistory,
  TimelineEntry,
} from "./ledger/verify/timeline.ts";
export { describeVerdict, isConclusive } from "./ledger/verify/verdict.ts";
export type { BrokenVerdict, IntactVerdict, Verdict } from "./ledger/verify/verdict.ts";
export { verifyExport } from "./ledger/verify/verify-export.ts";
export type { VerifyOptions } from "./ledger/verify/verify-export.ts";
