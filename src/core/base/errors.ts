/**
 * Errors are part of the interface. The engine throws `SluiceError`: a stable code, a message that
 * names the place, a hint that names the remedy. Handlers throw the other classes to decide what
 * happens to their item. Anything else that a handler throws is classified by its shape
 * (error-meaning.ts), never by its text.
 */
import type { Unnamed } from "./unnamed.ts";
import { type ErrorShape, isObject, readProperty, readShape } from "./error-shape.ts";
import { unreachable } from "./invariant.ts";
import { type Redact, redactText } from "./redact.ts";

export const ERROR_CLASSES = ["permanent", "transient", "fatal", "unexpected"] as const;
export type ErrorClass = (typeof ERROR_CLASSES)[number];

export interface SluiceErrorOptions {
  /** Of BAD_OPTION and BAD_FUNCTION_RESULT: the option that is wrong, such as `lane`. */
  readonly field?: string | undefined;
  /** What the error is about where several things share a code: NOT_FOUND with `batch`. */
  readonly kind?: string | undefined;
  /** What the reader can do about the error. */
  readonly hint?: string;
  /** True when the same call may succeed later without any change. */
  readonly retryable?: boolean;
  readonly cause?: unknown;
}

/**
 * The mark that identifies the class: a pipeline may load a second copy of the package, with its
 * own class.
 */
const SLUICE_ERROR = Symbol.for("sluice.error");

export class SluiceError extends Error {
  override readonly name = "SluiceError";
  readonly code: string;
  readonly field: string | undefined;
  readonly kind: string | undefined;
  readonly hint: string | undefined;
  readonly retryable: boolean;

  constructor(code: string, message: string, options: SluiceErrorOptions = {}) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.code = code;
    this.field = options.field;
    this.kind = options.kind;
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

/** The item may succeed later: it is retried. */
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
 * The system that items are sent through is unavailable, whatever the item is. In a paced batch
 * nothing more starts for a while, and no attempt counts. Elsewhere it is a transient error.
 */
export class OutageError extends HandlerError {
  override readonly name = "OutageError";
  override readonly errorClass = "transient";
  readonly isOutage = true;

  constructor(message: string, options: HandlerErrorOptions = {}) {
    super(message, "OUTAGE", options);
  }
}

/**
 * This worker cannot continue (credentials gone, queue deleted): it stops and gives its items back.
 */
export class FatalError extends HandlerError {
  override readonly name = "FatalError";
  override readonly errorClass = "fatal";

  constructor(message: string, options: HandlerErrorOptions = {}) {
    super(message, "FATAL", options);
  }
}

/** What is kept about an error, next to its item. */
export type ErrorFacts = Unnamed<{
  readonly errorClass: ErrorClass;
  readonly code: string;
  readonly message: string;
  readonly retryAfterMs: number | null;
  /** The item did not cause it: see `OutageError`. */
  readonly isOutage: boolean;
  /** The called system asks for fewer calls. */
  readonly isThrottled: boolean;
}>;

const MESSAGE_CHARS_MAX = 2_000;
/** How much of a message is searched for secrets; the rest is cut off anyway. */
const REDACTED_CHARS_MAX = 16_384;

/**
 * Classifies whatever a handler threw. Never throws, whatever value it gets. `redact` removes
 * secrets that cannot be recognised by their shape.
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

/** Classifies what one of the engine's own ports (its store, its broker) threw. */
export function classifyPortError(thrown: unknown): ErrorClass {
  // A port that throws a SluiceError expects it to last, unless it says `retryable`.
  if (thrown instanceof SluiceError) return thrown.retryable ? "transient" : "fatal";
  return decideErrorClass(readShape(thrown, isErrorClass), "port");
}

/**
 * Where an error came from. Access denied in a port stops everything: the engine cannot use its own
 * store. Access denied in a handler concerns one item; the next one may work.
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
      // The engine itself made this request, so the user cannot fix it.
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
  // Printing a function may run user code.
  return typeof thrown === "function"
    ? "a function was thrown"
    : `${typeof thrown} was thrown: ${String(thrown)}`;
}

function isErrorClass(value: unknown): value is ErrorClass {
  return ERROR_CLASSES.includes(value as ErrorClass);
}

/**
 * Cutting may halve a surrogate pair, and a message may contain a lone surrogate: records refuse
 * both. A NUL ends a text in some databases, so it is replaced by its visible picture.
 */
function clip(whole: string, redact: Redact): string {
  // Redacted before cutting: half a secret would not be recognised.
  const text = redact(whole.slice(0, REDACTED_CHARS_MAX));
  const clipped =
    text.length <= MESSAGE_CHARS_MAX ? text : `${text.slice(0, MESSAGE_CHARS_MAX - 1)}…`;
  return clipped.toWellFormed().replaceAll("\0", "\u2400");
}
