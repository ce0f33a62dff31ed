/**
 * What a task threw, as it goes from a member to its worker: what classifies an error goes along,
 * the rest (functions, open handles, objects without end) stays behind.
 */
import { describeError } from "../../core/errors.ts";

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
const FACTS = ["name", "stack", "code", "status", "statusCode", "errorClass", "isOutage"] as const;
const CAUSE_DEPTH_MAX = 5;

export function writeThrown(thrown: unknown, depth = 0): WrittenThrown {
  if (typeof thrown === "object" && thrown !== null) {
    const { message, retryAfterMs } = describeError(thrown);
    const cause = depth < CAUSE_DEPTH_MAX ? readFact(thrown, "cause") : undefined;
    return {
      kind: "object",
      message,
      facts: { ...listFacts(thrown), ...(retryAfterMs === null ? {} : { retryAfterMs }) },
      cause: cause === undefined ? null : writeThrown(cause, depth + 1),
    };
  }
  const isPlain = typeof thrown !== "function" && typeof thrown !== "symbol";
  return { kind: "value", value: isPlain ? (thrown as string) : describeError(thrown).message };
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
  for (const name of FACTS) {
    const value = readFact(thrown, name);
    if (["string", "number", "boolean"].includes(typeof value)) facts[name] = value as string;
  }
  return facts;
}

/** A getter of a hostile error may throw. */
function readFact(thrown: object, name: string): unknown {
  try {
    return (thrown as Record<string, unknown>)[name];
  } catch {
    return undefined;
  }
}
