/** What went wrong in a source while it was sliced, apart from what goes wrong in the store. */
import { describeError, SluiceError } from "../../core/base/errors.ts";
import type { RetryPolicy } from "../../core/base/retry.ts";

/** A source that fails for this long ends its batch. */
export const SOURCE_RETRY: RetryPolicy = { attempts: 5, baseMs: 250, capMs: 5_000 };

export class SourceFailure extends Error {
  override readonly name = "SourceFailure";

  constructor(cause: unknown) {
    super(describeError(cause).message, { cause });
  }

  /** Whether the same source may be readable a little later. */
  get mayPass(): boolean {
    if (this.cause instanceof SluiceError) return this.cause.retryable;
    return describeError(this.cause).errorClass !== "permanent";
  }
}

/** What the store says of itself is not the fault of whatever batch was about to be read or planned. */
export function isStoresFault(error: unknown): boolean {
  return error instanceof SluiceError && (error.retryable || error.code.startsWith("STORE_"));
}

/** Calls the source; what it throws is marked as its own. */
export async function askSource<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw new SourceFailure(error);
  }
}
