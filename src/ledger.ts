/** `sluice/ledger`: verifying, reading and proving ledgers from their exports, without the engine. */
export { checkConsistency, checkProof } from "./ledger/check-proof.ts";
export type { ConsistencyVerdict, ProofVerdict } from "./ledger/check-proof.ts";
export type { ByteSource } from "./ledger/byte-lines.ts";
export type { Checkpoint } from "./ledger/checkpoint.ts";
export { parsePlace, proveConsistency, proveRecord } from "./ledger/proof.ts";
export type { RecordPlace } from "./ledger/proof.ts";
export { readItemHistories, readTimeline } from "./ledger/timeline.ts";
export type {
  BatchEntry,
  DetailsEntry,
  ItemEntry,
  ItemHistory,
  TimelineEntry,
} from "./ledger/timeline.ts";
export { describeVerdict, isConclusive } from "./ledger/verdict.ts";
export type { BrokenVerdict, IntactVerdict, Verdict } from "./ledger/verdict.ts";
export { verifyExport } from "./ledger/verify-export.ts";
export type { VerifyOptions } from "./ledger/verify-export.ts";
