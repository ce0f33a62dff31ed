/**
 * What becomes of a document is on the ledger in these states. A rejected one has a code that says
 * why; its item fails with the same code, so that it is listed, counted and can be redriven.
 */
import type { ItemContext } from "sluice";
import { describeError, PermanentError } from "sluice";

export const STATES = ["RECEIVED", "DEDUPED", "VALIDATING", "REJECTED", "ARCHIVED"] as const;

export const REJECTION_CODES = {
  DOWNLOAD_FAILED: "its portal did not deliver it, in all attempts",
  FORBIDDEN_ADDRESS: "its address is not one that may be connected to",
  FORBIDDEN_URL: "its URL is not one of its site",
  FORBIDDEN_PATH: "its path leaves its folder, or is no file",
  TOO_LARGE: "it has more bytes, pages or characters than are allowed, or unpacks to more",
  EMPTY: "it has no bytes",
  WRONG_TYPE: "its content is not that of a PDF",
  CHECKSUM_MISMATCH: "its bytes are not those that the manifest promises",
  SCHEMA_MISMATCH: "its type or schema version is not one that is taken",
  ENCRYPTED: "it cannot be read without its password",
  PARSER_FAILURE: "it is broken, or its reader died of it",
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
    // It was told to stop: that is nobody's rejection.
    if (context.signal.aborted) throw error;
    const { errorClass, code, message } = describeError(error);
    const isLast = context.final && context.attempt >= attemptsMax;
    if (errorClass === "permanent" || (errorClass !== "fatal" && isLast)) {
      context.record("REJECTED", { code, message });
    }
    throw error;
  }
}
