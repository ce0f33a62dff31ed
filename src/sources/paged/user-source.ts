/**
 * Calls into the user's own code that fetches items (a page of an API, of a query), so that an
 * error there names the call and says whether a retry may help.
 */
import { describeError, SluiceError } from "../../core/base/errors.ts";

/** The call's result, or its failure as a `SluiceError` with the code SOURCE_FAILED. */
export async function callUser<Result>(
  call: string,
  act: () => Result | PromiseLike<Result>,
): Promise<Result> {
  try {
    return await act();
  } catch (cause) {
    if (cause instanceof SluiceError) throw cause;
    const facts = describeError(cause);
    throw new SluiceError("SOURCE_FAILED", `${call} failed: ${facts.message}`, {
      hint: "See the cause: the function given to the pipeline's source threw it.",
      retryable: facts.errorClass === "transient" || facts.errorClass === "unexpected",
      cause,
    });
  }
}

/** Checks that a page is a list, which JavaScript users may get wrong. */
export function checkPage(call: string, page: unknown): void {
  if (Array.isArray(page)) return;
  throw new SluiceError("SOURCE_BAD_PAGE", `${call} did not return an array`, {
    hint: "Return the items of the page as an array, and an empty one when there are none.",
  });
}
