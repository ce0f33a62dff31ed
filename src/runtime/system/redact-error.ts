/** An error as it may be logged: with its stack and causes, without secrets. */
import { holdsSecret, type Redact, redactValue } from "../../core/base/redact.ts";

/** How deep causes are followed. */
const CAUSES_MAX = 5;

/**
 * The thrown value itself if it contains no secret. Otherwise a copy of the same class without
 * secrets, also in the properties that clients add (requests, headers). An object that throws on
 * every access is replaced by a message.
 */
export function redactError(error: unknown, redact: Redact): unknown {
  try {
    return takeOut(error, redact, 0);
  } catch {
    return new Error("the thrown object cannot be read");
  }
}

function takeOut(error: unknown, redact: Redact, depth: number): unknown {
  if (typeof error === "string") return redact(error);
  if (!(error instanceof Error)) {
    return holdsSecret(error, redact) ? redactValue(error, redact) : error;
  }
  const { message, stack = "", cause } = error;
  const follow = (inner: unknown): unknown =>
    depth >= CAUSES_MAX ? undefined : takeOut(inner, redact, depth + 1);
  const safeCause = cause === undefined ? undefined : follow(cause);
  const errors = error instanceof AggregateError ? (error.errors as unknown[]) : [];
  const safeErrors = errors.map(follow);
  const [safeMessage, safeStack] = [redact(message), redact(stack)];
  const isSafe =
    safeMessage === message &&
    safeStack === stack &&
    safeCause === cause &&
    safeErrors.every((inner, at) => inner === errors[at]) &&
    !holdsSecret(error, redact);
  if (isSafe) return error;
  const copy = new Error(safeMessage, safeCause === undefined ? undefined : { cause: safeCause });
  Object.setPrototypeOf(copy, Object.getPrototypeOf(error) as object);
  const inner = errors.length === 0 ? {} : { errors: safeErrors };
  return Object.assign(copy, redactValue(error, redact), inner, {
    name: error.name,
    stack: safeStack,
  });
}
