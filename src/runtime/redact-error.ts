/** An error as it may be logged: with its stack and causes, without secrets. */
import type { Redact } from "../core/redact.ts";

/** How deep causes are followed. */
const CAUSES_MAX = 5;

/** The error itself where it holds no secret, or a copy without it that has its name, code and stack. */
export function redactError(error: unknown, redact: Redact, depth = 0): unknown {
  if (typeof error === "string") return redact(error);
  if (!(error instanceof Error)) return error;
  const { message, stack = "", cause } = error;
  const safeCause =
    cause === undefined || depth >= CAUSES_MAX ? undefined : redactError(cause, redact, depth + 1);
  const [safeMessage, safeStack] = [redact(message), redact(stack)];
  if (safeMessage === message && safeStack === stack && safeCause === cause) return error;
  const copy = new Error(safeMessage, safeCause === undefined ? undefined : { cause: safeCause });
  const code = (error as { readonly code?: unknown }).code;
  return Object.assign(copy, {
    name: error.name,
    stack: safeStack,
    ...(typeof code === "string" ? { code } : {}),
  });
}
