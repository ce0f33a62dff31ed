/**
 * Errors are part of the interface. `SluiceError` is what the engine itself throws: a stable code,
 * a message that names the place, a hint that names the remedy. The other classes are how a handler
 * steers its item; anything else that it throws is classified by its shape, never by its text.
 */
import { redactText } from "./redact.ts";

export const ERROR_CLASSES = ["permanent", "transient", "fatal", "unexpected"] as const;
export type ErrorClass = (typeof ERROR_CLASSES)[number];

export interface SluiceErrorOptions {
  /** What the reader can do about it. */
  readonly hint?: string;
  /** True when the same call may succeed later without any change. */
  readonly retryable?: boolean;
  readonly cause?: unknown;
}

/** The mark by which it is known: a pipeline may bring a second copy of the package, and class. */
const SLUICE_ERROR = Symbol.for("sluice.error");

export class SluiceError extends Error {
  override readonly name = "SluiceError";
  readonly code: string;
  readonly hint: string | undefined;
  readonly retryable: boolean;

  constructor(code: string, message: string, options: SluiceErrorOptions = {}) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.code = code;
    this.hint = options.hint;
    this.retryable = options.retryable ?? false;
  }

  get [SLUICE_ERROR](): true {
    return true;
  }

  static override [Symbol.hasInstance](value: unknown): value is SluiceError {
    return isObject(value) && SLUICE_ERROR in value;
  }
}

export interface HandlerErrorOptions {
  /** A short stable name for lists and filters, for example `SCHEMA_MISMATCH`. */
  readonly code?: string;
  readonly cause?: unknown;
}

abstract class HandlerError extends Error {
  abstract readonly errorClass: ErrorClass;
  readonly code: string;

  constructor(message: string, fallbackCode: string, options: HandlerErrorOptions) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.code = options.code ?? fallbackCode;
  }
}

/** The item can never succeed: it fails at once. */
export class PermanentError extends HandlerError {
  override readonly name = "PermanentError";
  override readonly errorClass = "permanent";

  constructor(message: string, options: HandlerErrorOptions = {}) {
    super(message, "PERMANENT", options);
  }
}

/** The item may succeed later: it is tried again. */
export class TransientError extends HandlerError {
  override readonly name = "TransientError";
  override readonly errorClass = "transient";
  readonly retryAfterMs: number | null;

  constructor(message: string, options: HandlerErrorOptions & { retryAfterMs?: number } = {}) {
    super(message, "TRANSIENT", options);
    this.retryAfterMs = options.retryAfterMs ?? null;
  }
}

/**
 * What the item goes out through is away, whatever the item is. In a paced batch nothing more starts
 * for a while then, and no attempt counts; elsewhere it is a transient error.
 */
export class OutageError extends HandlerError {
  override readonly name = "OutageError";
  override readonly errorClass = "transient";
  readonly isOutage = true;

  constructor(message: string, options: HandlerErrorOptions = {}) {
    super(message, "OUTAGE", options);
  }
}

/** This worker cannot go on (credentials gone, queue deleted): it stops, its items go back. */
export class FatalError extends HandlerError {
  override readonly name = "FatalError";
  override readonly errorClass = "fatal";

  constructor(message: string, options: HandlerErrorOptions = {}) {
    super(message, "FATAL", options);
  }
}

/** What is kept of an error beside its item. */
export interface ErrorFacts {
  readonly errorClass: ErrorClass;
  readonly code: string;
  readonly message: string;
  readonly retryAfterMs: number | null;
  /** Not the item's affair: see `OutageError`. */
  readonly isOutage: boolean;
  /** Whoever was called asks for less. */
  readonly isThrottled: boolean;
}

const TRANSIENT_CODES: ReadonlySet<string> = new Set([
  "EAI_AGAIN",
  "ECONNABORTED",
  "ECONNREFUSED",
  "ECONNRESET",
  "EHOSTUNREACH",
  "ENETDOWN",
  "ENETRESET",
  "ENETUNREACH",
  "EPIPE",
  "ETIMEDOUT",
  "UND_ERR_BODY_TIMEOUT",
  "UND_ERR_CONNECT_TIMEOUT",
  "UND_ERR_HEADERS_TIMEOUT",
  "UND_ERR_SOCKET",
]);

const MESSAGE_CHARS_MAX = 2_000;
/** What of a message is searched for secrets; the rest is cut off anyway. */
const REDACTED_CHARS_MAX = 16_384;
/** How deep `cause` is followed: fetch hides the socket's code one level down. */
const CAUSE_DEPTH_MAX = 5;
/** What a server may ask for at most: nothing waits without a bound. */
const RETRY_AFTER_MS_MAX = 86_400_000;

/** Classifies whatever a handler threw. Never throws itself, whatever it is given. */
export function describeError(thrown: unknown): ErrorFacts {
  const message = clip(readMessage(thrown));
  const shape = readShape(thrown);
  const code = shape.code ?? (shape.status === null ? "UNEXPECTED" : `HTTP_${shape.status}`);
  const { retryAfterMs, isOutage } = shape;
  const isThrottled = retryAfterMs !== null || shape.status === 429;
  return { errorClass: classify(shape), code, message, retryAfterMs, isOutage, isThrottled };
}

interface ErrorShape {
  readonly declared: ErrorClass | null;
  readonly code: string | null;
  readonly status: number | null;
  readonly retryAfterMs: number | null;
  readonly timedOut: boolean;
  readonly isOutage: boolean;
}

function classify(shape: ErrorShape): ErrorClass {
  if (shape.declared !== null) return shape.declared;
  if (shape.timedOut) return "transient";
  if (shape.code !== null && TRANSIENT_CODES.has(shape.code)) return "transient";
  const status = shape.status;
  if (status !== null) {
    if (status === 408 || status === 425 || status === 429 || status >= 500) return "transient";
    if (status >= 400) return "permanent";
  }
  return "unexpected";
}

function readShape(thrown: unknown): ErrorShape {
  let declared: ErrorClass | null = null;
  let code: string | null = null;
  let status: number | null = null;
  let retryAfterMs: number | null = null;
  let timedOut = false;
  let isOutage = false;
  let current = thrown;
  for (let depth = 0; depth < CAUSE_DEPTH_MAX && isObject(current); depth++) {
    const own = (name: string): unknown => readProperty(current as object, name);
    const errorClass = own("errorClass");
    if (declared === null && isErrorClass(errorClass)) declared = errorClass;
    const ownCode = own("code");
    if (code === null && typeof ownCode === "string" && ownCode !== "") code = clipCode(ownCode);
    const ownStatus = own("statusCode") ?? own("status");
    if (status === null && isHttpStatus(ownStatus)) status = ownStatus;
    retryAfterMs ??= readRetryAfter(own("retryAfterMs"), own("headers"), own("response"));
    if (own("name") === "TimeoutError") timedOut = true;
    if (own("isOutage") === true) isOutage = true;
    current = own("cause");
  }
  return { declared, code, status, retryAfterMs, timedOut, isOutage };
}

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

function readMessage(thrown: unknown): string {
  if (isObject(thrown)) {
    const message = readProperty(thrown, "message");
    if (typeof message === "string" && message !== "") return message;
    const name = readProperty(thrown, "name");
    return typeof name === "string" ? name : "an object without a message was thrown";
  }
  if (typeof thrown === "string") return thrown;
  // Printing a function may run code of its own.
  return typeof thrown === "function"
    ? "a function was thrown"
    : `${typeof thrown} was thrown: ${String(thrown)}`;
}

/** A getter of a hostile error may throw; that must not hide the error it sits on. */
function readProperty(object: object, name: string): unknown {
  try {
    return (object as Record<string, unknown>)[name];
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

function isErrorClass(value: unknown): value is ErrorClass {
  return ERROR_CLASSES.includes(value as ErrorClass);
}

function isHttpStatus(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 100 && value <= 599;
}

/**
 * Cutting may halve a pair of surrogates, and a message may hold a lone one: records take neither.
 * A NUL ends a text for some databases, so its picture stands in its place.
 */
function clip(whole: string): string {
  // Before it is cut: half a secret would no longer be known for one.
  const text = redactText(whole.slice(0, REDACTED_CHARS_MAX));
  const clipped =
    text.length <= MESSAGE_CHARS_MAX ? text : `${text.slice(0, MESSAGE_CHARS_MAX - 1)}…`;
  return clipped.toWellFormed().replaceAll("\0", "\u2400");
}

function clipCode(code: string): string {
  return code.slice(0, 100).toWellFormed().replaceAll("\0", "\u2400");
}
