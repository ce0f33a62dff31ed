/**
 * The states of a document on the ledger. A rejected one has a code that says why. Its item fails with
 * the same code, so it is listed, counted and can be redriven.
 */
import type { ItemContext } from "sluice";
import { describeError, PermanentError } from "sluice";

export const STATES = ["RECEIVED", "DEDUPED", "VALIDATING", "REJECTED", "ARCHIVED"] as const;

export const REJECTION_CODES = {
  DOWNLOAD_FAILED: "its portal did not deliver it in any attempt",
  FORBIDDEN_ADDRESS: "its address is not allowed",
  FORBIDDEN_URL: "its URL does not belong to its site",
  FORBIDDEN_PATH: "its path leaves its folder, or is not a file",
  TOO_LARGE: "it has, or unpacks to, too many bytes, pages or characters",
  EMPTY: "it has no bytes",
  WRONG_TYPE: "its content is not a PDF",
  CHECKSUM_MISMATCH: "its bytes do not match the manifest",
  SCHEMA_MISMATCH: "its type or schema version is not accepted",
  ENCRYPTED: "it cannot be read without its password",
  PARSER_FAILURE: "it is broken, or it crashed its reader",
} as const;

export type RejectionCode = keyof typeof REJECTION_CODES;

export function reject(code: RejectionCode, message: string): PermanentError {
  return new PermanentError(message, { code });
}

/** Runs one stage of a document. If it gives up for good, the ledger says so before the item fails. */
export async function orReject<Result>(
  context: ItemContext,
  attemptsMax: number,
  stage: () => Promise<Result>,
): Promise<Result> {
  try {
    return await stage();
  } catch (error) {
    // The handler was stopped: that does not reject the document.
    if (context.signal.aborted) throw error;
    const { errorClass, code, message } = describeError(error);
    const isLast = context.final && context.attempt >= attemptsMax;
    if (errorClass === "permanent" || (errorClass !== "fatal" && isLast)) {
      context.record("REJECTED", { code, message });
    }
    throw error;
  }
}
