/** Collects the problems of an options object, so that all of them are reported at once. */
import type { RecordType } from "../batch/batch.ts";
import { describeUnknownEvent, isKnownEvent } from "./event-names.ts";
import type { RetryPolicy } from "../base/retry.ts";
import { formatDidYouMean, findSimilar } from "../base/similar-words.ts";

const ATTEMPTS_MAX = 1_000;
const DAY_MS = 86_400_000;

export interface WholeNumberRule {
  readonly min: number;
  readonly max: number;
  readonly fallback: number;
}

export class OptionProblems {
  readonly #found: string[] = [];

  add(problem: string): void {
    this.#found.push(problem);
  }

  /** "x has 2 problems: ...", or null when there is none. */
  describe(what: string): string | null {
    const count = this.#found.length;
    if (count === 0) return null;
    const list = this.#found.map((problem) => `  - ${problem}`).join("\n");
    return `${what} has ${count === 1 ? "a problem" : `${count} problems`}:\n${list}`;
  }

  /** The options as an object. An unknown name is refused, never ignored. */
  readOptions(given: unknown, known: readonly string[]): { readonly [name: string]: unknown } {
    if (typeof given !== "object" || given === null || Array.isArray(given)) {
      this.add(`its options must be an object, not ${show(given)}`);
      return {};
    }
    for (const name of Object.keys(given)) {
      if (known.includes(name)) continue;
      const meant = formatDidYouMean(findSimilar(name, known));
      this.add(`${name} is not an option. ${meant || `The options are ${known.join(", ")}.`}`);
    }
    return given as { readonly [name: string]: unknown };
  }

  readWhole(name: string, value: unknown, { min, max, fallback }: WholeNumberRule): number {
    if (value === undefined) return fallback;
    const fits = Number.isInteger(value) && (value as number) >= min && (value as number) <= max;
    if (fits) return value as number;
    this.add(`${name} must be a whole number from ${min} to ${max} (got ${show(value)})`);
    return fallback;
  }

  readFlag(name: string, value: unknown, fallback: boolean): boolean {
    if (value === undefined || typeof value === "boolean") return value ?? fallback;
    this.add(`${name} must be true or false (got ${show(value)})`);
    return fallback;
  }

  /** The requested events, or null for all. */
  readEvents(value: unknown): readonly RecordType[] | null {
    if (value === undefined) return null;
    if (!Array.isArray(value) || value.length === 0) {
      this.add('events must be a list of events, for example ["batch.ended"]');
      return null;
    }
    return value.filter((name: unknown): name is RecordType => {
      if (typeof name === "string" && isKnownEvent(name)) return true;
      this.add(`events: ${describeUnknownEvent(String(name))}`);
      return false;
    });
  }

  /** `attempts` and `backoff: { baseMs, capMs }`. */
  readRetry(attempts: unknown, backoff: unknown, fallback: RetryPolicy): RetryPolicy {
    const { baseMs, capMs } = this.#readBackoff(backoff, fallback);
    // A number cannot say "for ever" in JSON; Infinity is accepted for it.
    const isEndless = attempts === Number.POSITIVE_INFINITY;
    const rule = { min: 1, max: ATTEMPTS_MAX, fallback: fallback.attempts };
    return {
      attempts: isEndless ? Number.POSITIVE_INFINITY : this.readWhole("attempts", attempts, rule),
      baseMs,
      capMs,
    };
  }

  #readBackoff(value: unknown, fallback: RetryPolicy): Omit<RetryPolicy, "attempts"> {
    if (value === undefined) return fallback;
    const given = this.readOptions(value, ["baseMs", "capMs"]);
    const read = (name: "baseMs" | "capMs"): number =>
      this.readWhole(`backoff.${name}`, given[name], {
        min: 0,
        max: DAY_MS,
        fallback: fallback[name],
      });
    const [baseMs, capMs] = [read("baseMs"), read("capMs")];
    if (given["capMs"] !== undefined && baseMs > capMs) {
      this.add("backoff.baseMs must not be above backoff.capMs");
    }
    return { baseMs, capMs: Math.max(baseMs, capMs) };
  }
}

/** Never shows a text of any length, or the content of an object: options contain secrets. */
function show(value: unknown): string {
  if (typeof value === "string") return "a text";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  return value === null || value === undefined ? "nothing" : `a ${typeof value}`;
}
