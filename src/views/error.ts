/**
 * An error. Errors are recognised by their shape: a pipeline may load a second copy of the package.
 */
import { describeError, type SluiceError } from "../core/base/errors.ts";
import { redactText } from "../core/base/redact.ts";

export interface ErrorView {
  readonly code: string;
  readonly message: string;
  /** The option that is wrong. */
  readonly field: string | null;
  /** What it is about, where several things share a code. */
  readonly kind: string | null;
  readonly hint: string | null;
}

type KnownError = Error & Pick<SluiceError, "code" | "field" | "kind" | "hint">;

export function isSluiceError(error: unknown): error is KnownError {
  return (
    error instanceof Error &&
    error.name === "SluiceError" &&
    typeof (error as { code?: unknown }).code === "string"
  );
}

/** `otherwise` is the hint of an error that has none. */
export function viewError(error: unknown, otherwise: string | null = null): ErrorView {
  const { code, message } = describeError(error);
  if (isSluiceError(error)) {
    const { message: text, field = null, kind = null, hint = otherwise } = error;
    return { code: error.code, message: redactText(text), field, kind, hint };
  }
  return { code, message, field: null, kind: null, hint: otherwise };
}
