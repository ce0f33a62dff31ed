/** Reads the key of an item. A bad key fails its item, because nothing could be looked up by it. */
import { PermanentError } from "../../core/base/errors.ts";
import type { Step } from "./step.ts";

const KEY_CHARS_MAX = 1_000;

export function checkKey(key: unknown): string {
  if (typeof key === "number" && Number.isFinite(key)) return String(key);
  if (typeof key !== "string") throw badKey(`key() returned ${key === null ? "null" : typeof key}`);
  if (key.length > KEY_CHARS_MAX) {
    throw badKey(`key() returned ${key.length} characters, over the limit of ${KEY_CHARS_MAX}`);
  }
  // Databases would cut or refuse such a text.
  if (key.includes("\0") || !key.isWellFormed()) {
    throw badKey("key() returned a text with a NUL or a lone surrogate");
  }
  return key;
}

function badKey(problem: string): PermanentError {
  return new PermanentError(`${problem}; a key is a text or a number`, {
    code: "BAD_FUNCTION_RESULT",
  });
}

/** An error in the key function must not hide the failure for which the key is read. */
export function readKeyOf(step: Pick<Step, "readKey">, item: unknown): string | null {
  if (item === undefined) return null;
  try {
    return step.readKey(item);
  } catch {
    return null;
  }
}
