/** Marks what nobody can work on with, so that the shell is told of it by an exit code of its own. */
import { classifyPortError } from "../../core/base/errors.ts";

export class FatalFailure extends Error {
  override readonly name = "FatalFailure";

  constructor(cause: unknown) {
    super("the worker cannot go on", { cause });
  }
}

/** For those that have no remedy of their own. */
export const FATAL_HINT =
  "Mend it, then start the worker again. Nothing is lost: what was in hand was given back, and no try was counted.";

/** Answers as `act` does; what it throws is marked if it is fatal. */
export async function markFatal<T>(act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    throw classifyPortError(error) === "fatal" ? new FatalFailure(error) : error;
  }
}
