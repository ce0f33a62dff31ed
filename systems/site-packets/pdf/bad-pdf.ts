/**
 * Why a PDF is not taken: permanent, as the same bytes will be no better the next time. It says so by
 * its shape, which is all that the engine looks at. Tasks do not load the engine for its error classes:
 * that would cost each process of the pool some 50 MB.
 */
import type { RejectionCode } from "../rejection.ts";

export class BadPdfError extends Error {
  override readonly name = "BadPdfError";
  readonly errorClass = "permanent";
  readonly code: RejectionCode;

  constructor(code: RejectionCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}
