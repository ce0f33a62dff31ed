/**
 * Reads JSON that may be forged. A text is accepted only in its canonical form: then no key can
 * occur twice, no number can be written in two ways, and a reader understands exactly what was
 * hashed. Problems are returned as text, never thrown.
 */
import { canonicalize, type Json } from "../../core/base/canonical-json.ts";

export type JsonObject = { readonly [key: string]: unknown };

export type Parsed =
  | { readonly kind: "object"; readonly value: JsonObject }
  | { readonly kind: "refused"; readonly why: string };

const BYTE_ORDER_MARK = "\ufeff";

export function parseCanonical(text: string): Parsed {
  const refused = (why: string): Parsed => ({ kind: "refused", why });
  if (text === "") return refused("the line is empty");
  if (text.startsWith(BYTE_ORDER_MARK)) return refused("it begins with a byte order mark");
  if (text.endsWith("\r")) return refused("it ends with a carriage return");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return refused("it is not JSON");
  }
  if (!isJsonObject(value)) return refused("it is not a JSON object");
  return isCanonical(text, value) ? { kind: "object", value } : refused("it is not canonical JSON");
}

function isCanonical(text: string, value: JsonObject): boolean {
  try {
    return canonicalize(value as Json) === text;
  } catch {
    // Too deep, or with a lone surrogate: such text was never written.
    return false;
  }
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether an object has exactly these members; those with a question mark are optional. */
export function hasMembers(value: JsonObject, members: readonly string[]): boolean {
  const required = members.filter((name) => !name.endsWith("?"));
  const known = members.map((name) => name.replace(/\?$/, ""));
  return (
    required.every((name) => Object.hasOwn(value, name)) &&
    Object.keys(value).every((name) => known.includes(name))
  );
}

/** A whole number from 0 on. */
export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

export function isHex(value: unknown, digits: number): value is string {
  return typeof value === "string" && value.length === digits && /^[0-9a-f]*$/.test(value);
}

const SHOWN_CHARS_MAX = 80;

/** A part of a forged text for a message: always short, on one line and harmless. */
export function show(value: unknown): string {
  const text = JSON.stringify(value) ?? "nothing";
  return text.length > SHOWN_CHARS_MAX ? `${text.slice(0, SHOWN_CHARS_MAX)}…` : text;
}

/** UTC, ISO 8601 with milliseconds. */
export function isInstant(value: unknown): value is string {
  return typeof value === "string" && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(value);
}
