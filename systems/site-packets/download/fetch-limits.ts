/** The limits of one download. */
import { SluiceError } from "sluice";

/**
 * All whole numbers from 1, `redirectsMax` from 0. Times except `totalMs` are precise to about a
 * second.
 */
export interface FetchLimits {
  readonly bytesMax: number;
  /** Until a connection is established, including the name lookup and the certificate check. */
  readonly connectMs: number;
  readonly headersMs: number;
  /** Between two pieces of a body. */
  readonly idleMs: number;
  /** For everything, including redirects and waiting for a free connection. */
  readonly totalMs: number;
  readonly redirectsMax: number;
}

/** The maximum of a timer. */
const TIMER_MS_MAX = 2 ** 31 - 1;

export function checkLimits({ redirectsMax, bytesMax, ...timesMs }: FetchLimits): void {
  checkWhole("redirectsMax", redirectsMax, 0, Number.MAX_SAFE_INTEGER);
  checkWhole("bytesMax", bytesMax, 1, Number.MAX_SAFE_INTEGER);
  // To undici, 0 means no limit.
  for (const [name, ms] of Object.entries(timesMs)) checkWhole(name, ms, 1, TIMER_MS_MAX);
}

function checkWhole(name: string, value: number, min: number, max: number): void {
  if (Number.isInteger(value) && value >= min && value <= max) return;
  throw new SluiceError("BAD_FETCH_LIMIT", `${name} is ${value}`, {
    hint: `Use a whole number from ${min} to ${max}.`,
  });
}
