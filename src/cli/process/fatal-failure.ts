/** Marks an error with which no worker can continue, so that it has an exit code of its own. */
import { classifyPortError } from "../../core/base/errors.ts";

export class FatalFailure extends Error {
  override readonly name = "FatalFailure";

  constructor(cause: unknown) {
    super("the worker cannot continue", { cause });
  }
}

/** For those that have no remedy of their own. */
export const FATAL_HINT =
  "Fix it, then start the worker again. Nothing is lost: running items were given back, and no attempt was counted.";

/** Answers as `act` does; what it throws is marked if it is fatal. */
export async function markFatal<T>(act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    throw classifyPortError(error) === "fatal" ? new FatalFailure(error) : error;
  }
}
