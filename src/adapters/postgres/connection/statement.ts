/** A statement that the server prepares once per connection, and values as it can store them. */
import { hash } from "node:crypto";
import type { Value } from "../../sql/dialect/statement.ts";

export type { Value } from "../../sql/dialect/statement.ts";

export interface Statement {
  /** The same in every process: a pooler may give a connection to any of them. */
  readonly name: string;
  readonly text: string;
}

const NAME_CHARS = 20;

export function statement(text: string): Statement {
  return { name: `sluice_${hash("sha256", text).slice(0, NAME_CHARS)}`, text };
}

/**
 * PostgreSQL's text allows every character except NUL, which users' keys and messages may contain.
 */
const NUL = "\0";
/** A private-use character; the digit after it says which character was meant. */
const ESCAPE = "\uE000";
const NEEDS_ESCAPE = new RegExp(`[${NUL}${ESCAPE}]`, "g");
const ESCAPED = new RegExp(`${ESCAPE}([01])`, "g");

export function encodeValue(value: Value): unknown {
  if (typeof value === "string") return encodeText(value);
  if (value instanceof Uint8Array) return encodeBytes(value);
  return Array.isArray(value) ? encodeList(value) : value;
}

function encodeText(text: string): string {
  if (!text.includes(NUL) && !text.includes(ESCAPE)) return text;
  return text.replace(NEEDS_ESCAPE, (found) => ESCAPE + (found === NUL ? "0" : "1"));
}

function encodeBytes(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** In the server's format. The driver would check every number, which is not needed here. */
function encodeList(list: readonly (string | number | null | Uint8Array)[]): string {
  if (typeof list[0] === "number" && list.every((entry) => typeof entry === "number")) {
    return `{${list.join(",")}}`;
  }
  return `{${list.map(encodeEntry).join(",")}}`;
}

const NEEDS_BACKSLASH = /["\\]/g;

function encodeEntry(entry: string | number | null | Uint8Array): string {
  if (entry === null) return "NULL";
  if (typeof entry === "number") return String(entry);
  if (typeof entry !== "string") return `"\\\\x${encodeBytes(entry).toString("hex")}"`;
  return `"${encodeText(entry).replace(NEEDS_BACKSLASH, "\\$&")}"`;
}

export function decodeText(text: string): string {
  return decode(text, NUL);
}

/** Restores such text in JSON that the server made, still as JSON: there a NUL is escaped. */
export function decodeJson(text: string): string {
  return decode(text, "\\u0000");
}

function decode(text: string, nul: string): string {
  if (!text.includes(ESCAPE)) return text;
  return text.replace(ESCAPED, (_found, meant) => (meant === "0" ? nul : ESCAPE));
}
