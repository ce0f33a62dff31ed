/**
 * The position of an operation in a trace, as W3C's `traceparent` text. Written and read here,
 * because it must work even when no OpenTelemetry propagator is configured.
 */

export interface TracePlace {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** 16 hexadecimal digits. */
  readonly spanId: string;
  /** Bit 1: sampled. */
  readonly traceFlags: number;
}

const TRACEPARENT = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;
const NO_TRACE = "0".repeat(32);
const NO_SPAN = "0".repeat(16);

/** Null when the ids are invalid. */
export function writeTraceparent({ traceId, spanId, traceFlags }: TracePlace): string | null {
  const text = `00-${traceId}-${spanId}-${(traceFlags & 0xff).toString(16).padStart(2, "0")}`;
  return readTraceparent(text) === null ? null : text;
}

/** Null when the text is invalid: it may come from anywhere. */
export function readTraceparent(text: string): TracePlace | null {
  const [, traceId = "", spanId = "", flags = ""] = TRACEPARENT.exec(text) ?? [];
  if (traceId === "" || traceId === NO_TRACE || spanId === NO_SPAN) return null;
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) };
}
