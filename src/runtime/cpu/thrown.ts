/**
 * What a task threw, as it goes from a member to its worker: what classifies an error goes along,
 * the rest (functions, open handles, objects without end) stays behind.
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

/** What errors are told apart by, and their place. */
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
/** More than anybody reads of an error: a task may throw as much as it likes. */
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

/** The same as far as anybody can tell; what was no error is none here either. */
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
  // Clients keep these in their classes, and in objects of their own, which stay behind.
  const { name, status } = readSigns(thrown);
  const { retryAfterMs } = describeError(thrown);
  if (name !== null) facts["name"] = name;
  if (status !== null) facts["status"] = status;
  if (retryAfterMs !== null) facts["retryAfterMs"] = retryAfterMs;
  if (isObject(readProperty(thrown, "$retryable"))) facts["retryable"] = true;
  return facts;
}

/** Of an error that stands for several the first one says what it means. */
function readCause(thrown: object): unknown {
  const several = readProperty(thrown, "errors");
  const first = isObject(several) ? readProperty(several, "0") : undefined;
  return readProperty(thrown, "cause") ?? first;
}

function cut(text: string): string {
  return text.length <= TEXT_CHARS_MAX ? text : text.slice(0, TEXT_CHARS_MAX);
}
