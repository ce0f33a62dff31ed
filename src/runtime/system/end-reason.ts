/** The recorded reason why a batch failed, with the remedy for its later readers. */
import type { EndReason } from "../../core/batch/batch.ts";
import { describeError, SluiceError } from "../../core/base/errors.ts";

export function describeReason(error: unknown): EndReason {
  const { code, message } = describeError(error);
  const hint = error instanceof SluiceError && error.hint !== undefined ? `\n${error.hint}` : "";
  return { code, message: message + hint };
}
