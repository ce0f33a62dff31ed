/**
 * Reads what can be told from whatever was thrown, its causes included: fetch hides the socket's
 * code one level down. Reading never throws, whatever it is given.
 */
import { type ErrorSigns, findMeaning, type FoundMeaning } from "./error-meaning.ts";

export interface ErrorShape {
  /** What it says of its own class; to be checked. */
  readonly declared: unknown;
  readonly code: string | null;
  readonly status: number | null;
  readonly retryAfterMs: number | null;
  readonly isOutage: boolean;
  /** That of the outermost error that has one. */
  readonly found: FoundMeaning | null;
}

const PASSING: FoundMeaning = { meaning: "passing", word: null };
const CAUSE_DEPTH_MAX = 5;
/** What a server may ask for at most: nothing waits without a bound. */
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

/** What one error says of itself, its causes left aside. */
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
  // A class that sets no name is known by its own.
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

/** Errors of our own and of AWS may say so themselves. */
function saysRetryable(error: object): boolean {
  return readProperty(error, "retryable") === true || isObject(readProperty(error, "$retryable"));
}

/** What clients call a reply of Redis that is an error. */
const REPLY_NAMES: ReadonlySet<string> = new Set([
  "BlobError",
  "ErrorReply",
  "ReplyError",
  "SimpleError",
]);

/** What a server asks for: as its client says it, or in the headers of its answer. */
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

/** Seconds, or a date: that one is told from the server's own, whatever time it is here. */
function readRetryHeader(headers: unknown): number | null {
  if (!isObject(headers)) return null;
  const after = readHeader(headers, "retry-after")?.trim() ?? "";
  if (/^\d{1,9}$/u.test(after)) return Number(after) * 1_000;
  const ms = Date.parse(after) - Date.parse(readHeader(headers, "date") ?? "");
  return Number.isNaN(ms) ? null : Math.max(0, ms);
}

/** Of `Headers`, or of an object with names in small letters or as people write them. */
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

/** A getter of a hostile error may throw; that must not hide the error it sits on. */
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

/** As a code may be stored: cut, and without what records and databases do not take. */
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
