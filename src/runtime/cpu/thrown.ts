/**
 * Copies what a task threw from a member to its worker. Only the properties that classify an error
 * are copied, and not functions, open handles or large objects.
 */
import { isObject, readProperty, readSigns } from "../../core/base/error-shape.ts";
import { describeError } from "../../core/base/errors.ts";

export type WrittenThrown =
  | {
      readonly kind: "value";
      readonly value: string | number | boolean | bigint | null | undefined;
    }
  | {
      readonly kind: "object";
      readonly message: string;
      readonly facts: Readonly<Record<string, string | number | boolean>>;
      readonly cause: WrittenThrown | null;
    };

/** Properties that classify an error, and its stack. */
const FACTS = [
  "stack",
  "code",
  "Code",
  "sqlState",
  "status",
  "statusCode",
  "errorClass",
  "isOutage",
  "retryable",
] as const;
const CAUSE_DEPTH_MAX = 5;
/** Longer texts are cut: a task may throw an error of any size. */
const TEXT_CHARS_MAX = 20_000;

export function writeThrown(thrown: unknown, depth = 0): WrittenThrown {
  if (isObject(thrown)) {
    const cause = depth < CAUSE_DEPTH_MAX ? readCause(thrown) : undefined;
    return {
      kind: "object",
      message: describeError(thrown).message,
      facts: listFacts(thrown),
      cause: cause === undefined ? null : writeThrown(cause, depth + 1),
    };
  }
  if (typeof thrown === "string") return { kind: "value", value: cut(thrown) };
  const isPlain = typeof thrown !== "function" && typeof thrown !== "symbol";
  return { kind: "value", value: isPlain ? (thrown as number) : describeError(thrown).message };
}

/** Rebuilds what was thrown, with the same classification; a plain value stays a plain value. */
export function readThrown(written: WrittenThrown): unknown {
  if (written.kind === "value") return written.value;
  const { message, facts, cause } = written;
  const error = new Error(message, cause === null ? undefined : { cause: readThrown(cause) });
  for (const [name, value] of Object.entries(facts)) {
    Object.defineProperty(error, name, { value, enumerable: false, configurable: true });
  }
  return error;
}

function listFacts(thrown: object): Record<string, string | number | boolean> {
  const facts: Record<string, string | number | boolean> = {};
  for (const fact of FACTS) {
    const value = readProperty(thrown, fact);
    if (typeof value === "string") facts[fact] = cut(value);
    else if (typeof value === "number" || typeof value === "boolean") facts[fact] = value;
  }
  // Some client libraries keep these in their classes or in nested objects, which are not copied.
  const { name, status } = readSigns(thrown);
  const { retryAfterMs } = describeError(thrown);
  if (name !== null) facts["name"] = name;
  if (status !== null) facts["status"] = status;
  if (retryAfterMs !== null) facts["retryAfterMs"] = retryAfterMs;
  if (isObject(readProperty(thrown, "$retryable"))) facts["retryable"] = true;
  return facts;
}

/** The cause; for an aggregate error without one, its first error. */
function readCause(thrown: object): unknown {
  const several = readProperty(thrown, "errors");
  const first = isObject(several) ? readProperty(several, "0") : undefined;
  return readProperty(thrown, "cause") ?? first;
}

function cut(text: string): string {
  return text.length <= TEXT_CHARS_MAX ? text : text.slice(0, TEXT_CHARS_MAX);
}
