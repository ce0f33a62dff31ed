/**
 * Errors are part of the interface. `SluiceError` is what the engine itself throws: a stable code,
 * a message that names the place, a hint that names the remedy. The other classes are how a handler
 * steers its item; anything else that it throws is classified by its shape (error-meaning.ts), never by its text.
 */
import type { Unnamed } from "./unnamed.ts";
import { type ErrorShape, isObject, readProperty, readShape } from "./error-shape.ts";
import { unreachable } from "./invariant.ts";
import { type Redact, redactText } from "./redact.ts";

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
export type ErrorFacts = Unnamed<{
  readonly errorClass: ErrorClass;
  readonly code: string;
  readonly message: string;
  readonly retryAfterMs: number | null;
  /** Not the item's affair: see `OutageError`. */
  readonly isOutage: boolean;
  /** Whoever was called asks for less. */
  readonly isThrottled: boolean;
}>;

const MESSAGE_CHARS_MAX = 2_000;
/** What of a message is searched for secrets; the rest is cut off anyway. */
const REDACTED_CHARS_MAX = 16_384;

/**
 * Classifies whatever a handler threw. Never throws itself, whatever it is given. `redact` knows
 * secrets that have no shape of their own.
 */
export function describeError(thrown: unknown, redact: Redact = redactText): ErrorFacts {
  const shape = readShape(thrown, isErrorClass);
  const { status, retryAfterMs, isOutage } = shape;
  return {
    errorClass: decideErrorClass(shape, "handler"),
    code: redact(shape.code ?? (status === null ? "UNEXPECTED" : `HTTP_${status}`)),
    message: clip(readMessage(thrown), redact),
    retryAfterMs,
    isOutage,
    isThrottled: retryAfterMs !== null || status === 429 || shape.found?.meaning === "throttled",
  };
}

/** Classifies what one of the engine's own ports threw: its store, its broker. */
export function classifyPortError(thrown: unknown): ErrorClass {
  // What a port has put in words of its own will not pass by itself, unless it says so.
  if (thrown instanceof SluiceError) return thrown.retryable ? "transient" : "fatal";
  return decideErrorClass(readShape(thrown, isErrorClass), "port");
}

/**
 * Where an error came from. Whoever may not use the engine's own store can do nothing at all; whoever
 * may not do what one item asks for can go on with the next.
 */
type ErrorPlace = "handler" | "port";

function decideErrorClass({ declared, found }: ErrorShape, place: ErrorPlace): ErrorClass {
  if (isErrorClass(declared)) return declared;
  if (found === null) return "unexpected";
  const { meaning } = found;
  switch (meaning) {
    case "passing":
    case "throttled":
      return "transient";
    case "refused":
    case "gone":
      return place === "port" ? "fatal" : "permanent";
    case "bad":
      // What the engine sends by itself is not a user's to mend.
      return place === "port" ? "unexpected" : "permanent";
    default:
      return unreachable(meaning);
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

function isErrorClass(value: unknown): value is ErrorClass {
  return ERROR_CLASSES.includes(value as ErrorClass);
}

/**
 * Cutting may halve a pair of surrogates, and a message may hold a lone one: records take neither.
 * A NUL ends a text for some databases, so its picture stands in its place.
 */
function clip(whole: string, redact: Redact): string {
  // Before it is cut: half a secret would no longer be known for one.
  const text = redact(whole.slice(0, REDACTED_CHARS_MAX));
  const clipped =
    text.length <= MESSAGE_CHARS_MAX ? text : `${text.slice(0, MESSAGE_CHARS_MAX - 1)}…`;
  return clipped.toWellFormed().replaceAll("\0", "\u2400");
}
