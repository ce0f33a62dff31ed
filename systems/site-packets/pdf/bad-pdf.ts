/**
 * Why a PDF is refused. It is permanent, because the same bytes will fail again. The engine
 * recognises it by its shape alone, so tasks need not load the engine for its error classes: that
 * would cost each process of the pool about 50 MB.
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
