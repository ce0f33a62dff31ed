/** Marks an error after which no worker can continue, so that it gets its own exit code. */
import { classifyPortError } from "../../core/base/errors.ts";

export class FatalFailure extends Error {
  override readonly name = "FatalFailure";

  constructor(cause: unknown) {
    super("the worker cannot continue", { cause });
  }
}

/** The hint for errors without their own. */
export const FATAL_HINT =
  "Fix it, then start the worker again. Nothing is lost: running items were given back, and no attempt was counted.";

/** Returns the result of `act`; marks its error if it is fatal. */
export async function markFatal<T>(act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    throw classifyPortError(error) === "fatal" ? new FatalFailure(error) : error;
  }
}
