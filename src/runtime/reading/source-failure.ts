/** Errors of a source while it is sliced, kept apart from errors of the store. */
import { describeError, SluiceError } from "../../core/base/errors.ts";
import type { RetryPolicy } from "../../core/base/retry.ts";

/** A source that fails for this long fails its batch. */
export const SOURCE_RETRY: RetryPolicy = { attempts: 5, baseMs: 250, capMs: 5_000 };

export class SourceFailure extends Error {
  override readonly name = "SourceFailure";

  constructor(cause: unknown) {
    super(describeError(cause).message, { cause });
  }

  /** Whether a retry of the same source may succeed. */
  get mayPass(): boolean {
    if (this.cause instanceof SluiceError) return this.cause.retryable;
    return describeError(this.cause).errorClass !== "permanent";
  }
}

/** An error of the store is not the fault of the batch that was being read or planned. */
export function isStoresFault(error: unknown): boolean {
  return error instanceof SluiceError && (error.retryable || error.code.startsWith("STORE_"));
}

/** Calls the source; its errors are marked as the source's own. */
export async function askSource<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw new SourceFailure(error);
  }
}
