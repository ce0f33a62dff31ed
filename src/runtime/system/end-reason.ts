/** Why a batch fails, as it is recorded: with the remedy, for whoever looks at it later. */
import type { EndReason } from "../../core/batch/batch.ts";
import { describeError, SluiceError } from "../../core/base/errors.ts";

export function describeReason(error: unknown): EndReason {
  const { code, message } = describeError(error);
  const hint = error instanceof SluiceError && error.hint !== undefined ? `\n${error.hint}` : "";
  return { code, message: message + hint };
}
