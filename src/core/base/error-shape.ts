/**
 * Reads what a thrown value says about itself, its causes included: fetch hides the socket's code
 * one level down. Reading never throws, whatever value it gets.
 */
import { type ErrorSigns, findMeaning, type FoundMeaning } from "./error-meaning.ts";

export interface ErrorShape {
  /** The class that the error declares; unchecked. */
  readonly declared: unknown;
  readonly code: string | null;
  readonly status: number | null;
  readonly retryAfterMs: number | null;
  readonly isOutage: boolean;
  /** The meaning of the outermost error that has one. */
  readonly found: FoundMeaning | null;
}

const PASSING: FoundMeaning = { meaning: "passing", word: null };
const CAUSE_DEPTH_MAX = 5;
/** The longest Retry-After that is honoured: every wait has a bound. */
const RETRY_AFTER_MS_MAX = 86_400_000;
const CODE_CHARS_MAX = 100;

export function readShape(thrown: unknown, isDeclaration: (value: unknown) => boolean): ErrorShape {
  let declared: unknown = null;
  let code: string | null = null;
  let status: number | null = null;
  let retryAfterMs: number | null = null;
  let isOutage = false;
  let found: FoundMeaning | null = null;
  let current = thrown;
  for (let depth = 0; depth < CAUSE_DEPTH_MAX && isObject(current); depth++) {
    const error = current;
    const own = (name: string): unknown => readProperty(error, name);
    const signs = readSigns(error);
    if (declared === null && isDeclaration(own("errorClass"))) declared = own("errorClass");
    code ??= signs.code;
    status ??= signs.status;
    retryAfterMs ??= readRetryAfter(own("retryAfterMs"), own("headers"), own("response"));
    if (own("isOutage") === true) isOutage = true;
    found ??= findMeaning(signs) ?? (saysRetryable(error) ? PASSING : null);
    current = own("cause") ?? readFirst(own("errors"));
  }
  return { declared, code: code ?? found?.word ?? null, status, retryAfterMs, isOutage, found };
}

/** What one error says about itself, without its causes. */
export function readSigns(error: object): ErrorSigns {
  const own = (name: string): unknown => readProperty(error, name);
  const of = (value: unknown, name: string): unknown =>
    isObject(value) ? readProperty(value, name) : undefined;
  const response = own("response");
  const statuses = [
    own("statusCode"),
    own("status"),
    of(own("$metadata"), "httpStatusCode"),
    of(response, "statusCode"),
    of(response, "status"),
  ];
  // A class that sets no name is known by the name of the class.
  const names = [readText(own("name")), readClassName(error)];
  return {
    code: readText(own("code")) ?? readText(own("Code")) ?? readText(own("sqlState")),
    name: names.find((name) => name !== null && name !== "Error") ?? null,
    status: statuses.find(isHttpStatus) ?? null,
    reply: names.some((name) => name !== null && REPLY_NAMES.has(name))
      ? (/^[A-Z]+/u.exec(readText(own("message")) ?? "")?.[0] ?? null)
      : null,
  };
}

function readClassName(error: object): string | null {
  const made = readProperty(error, "constructor");
  return typeof made === "function" ? readText(readProperty(made, "name")) : null;
}

/** Our own errors and those of AWS may say so themselves. */
function saysRetryable(error: object): boolean {
  return readProperty(error, "retryable") === true || isObject(readProperty(error, "$retryable"));
}

/** The names that clients give to Redis error replies. */
const REPLY_NAMES: ReadonlySet<string> = new Set([
  "BlobError",
  "ErrorReply",
  "ReplyError",
  "SimpleError",
]);

/** The wait that a server asks for: from the client's own field, or from the response headers. */
function readRetryAfter(given: unknown, headers: unknown, response: unknown): number | null {
  const ms =
    typeof given === "number"
      ? given
      : (readRetryHeader(headers) ??
        (isObject(response) ? readRetryHeader(readProperty(response, "headers")) : null));
  if (ms === null || !Number.isFinite(ms) || ms < 0) return null;
  // Whole, as stores keep times in whole milliseconds.
  return Math.min(Math.ceil(ms), RETRY_AFTER_MS_MAX);
}

/**
 * Seconds, or a date. A date is compared with the server's own date, so the local clock does not
 * matter.
 */
function readRetryHeader(headers: unknown): number | null {
  if (!isObject(headers)) return null;
  const after = readHeader(headers, "retry-after")?.trim() ?? "";
  if (/^\d{1,9}$/u.test(after)) return Number(after) * 1_000;
  const ms = Date.parse(after) - Date.parse(readHeader(headers, "date") ?? "");
  return Number.isNaN(ms) ? null : Math.max(0, ms);
}

/** From `Headers`, or from an object with names in lower case or in the usual mixed case. */
function readHeader(headers: object, name: string): string | null {
  const get = readProperty(headers, "get");
  try {
    const found: unknown =
      typeof get === "function"
        ? (get as (name: string) => unknown).call(headers, name)
        : Object.entries(headers).find(([own]) => own.toLowerCase() === name)?.[1];
    return typeof found === "string" || typeof found === "number" ? String(found) : null;
  } catch {
    return null;
  }
}

/** A getter of a hostile error may throw; the rest of the error must still be readable. */
export function readProperty(object: object, name: string): unknown {
  try {
    return (object as Record<string, unknown>)[name];
  } catch {
    return undefined;
  }
}

function readFirst(list: unknown): unknown {
  return isObject(list) ? readProperty(list, "0") : undefined;
}

/**
 * A code that can be stored: cut to length, without characters that records and databases refuse.
 */
function readText(value: unknown): string | null {
  if (typeof value !== "string" || value === "") return null;
  return value.slice(0, CODE_CHARS_MAX).toWellFormed().replaceAll("\0", "\u2400");
}

export function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

function isHttpStatus(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 100 && value <= 599;
}
