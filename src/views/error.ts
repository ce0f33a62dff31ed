/** An error. Errors are known by their shape: a pipeline may bring a second copy of the package. */
import { describeError } from "../core/base/errors.ts";
import { redactText } from "../core/base/redact.ts";

export interface ErrorView {
  readonly code: string;
  readonly message: string;
  readonly hint: string | null;
}

export function isSluiceError(error: unknown): error is Error & { code: string; hint?: string } {
  return (
    error instanceof Error &&
    error.name === "SluiceError" &&
    typeof (error as { code?: unknown }).code === "string"
  );
}

/** `otherwise` is the hint for an error that has none of its own. */
export function viewError(error: unknown, otherwise: string | null = null): ErrorView {
  const { code, message } = describeError(error);
  if (isSluiceError(error)) {
    const { message: text, hint = otherwise } = error;
    return { code: error.code, message: redactText(text), hint: hint ?? otherwise };
  }
  return { code, message, hint: otherwise };
}
