/** The rate of a step: which bucket each item draws from, and how much. */
import { type BucketSpec, RATE_BUCKETS } from "../../core/limits/bucket.ts";
import { PermanentError } from "../../core/base/errors.ts";
import type { Rate } from "../../core/limits/token-bucket.ts";
import type { TokenNeed } from "../../ports/store/token-store.ts";
import { checkKey } from "./item-key.ts";
import type { CheckedRate } from "./rate-check.ts";

export interface StepRate {
  /** `rate/<name>`: steps and pipelines with the same name share it. */
  readonly bucket: string;
  /** What every item draws; null where it depends on the item. */
  readonly fixed: TokenNeed | null;
  /** What an item draws; throws a `PermanentError` when it can never start. */
  readTokenNeed(item: unknown): TokenNeed;
}

/** The key of all items where a rate has none. */
const ONE_KEY = "";

export function makeStepRate(checked: CheckedRate, pipeline: string): StepRate {
  const { name = pipeline, key, tokens, every, keys } = checked;
  const bucket = nameRateBucket(name);
  const specs = new Map(Object.entries(keys).map(([one, rate]) => [one, toSpec(rate)]));
  const usual = toSpec(every);
  const isFixed = key === undefined && typeof tokens === "number";
  return {
    bucket,
    fixed: isFixed
      ? { bucket, key: ONE_KEY, spec: specs.get(ONE_KEY) ?? usual, cost: tokens }
      : null,
    readTokenNeed: (item) => {
      const itemKey = key === undefined ? ONE_KEY : checkKey(key(item));
      const own = specs.get(itemKey) ?? usual;
      const cost = typeof tokens === "number" ? tokens : tokens(item);
      checkCost(cost, itemKey, own);
      return { bucket, key: itemKey, spec: own, cost };
    },
  };
}

export function nameRateBucket(name: string): string {
  return `${RATE_BUCKETS}${name}`;
}

function toSpec(rate: Rate | null): BucketSpec {
  return rate === null ? { kind: "open" } : { kind: "rate", ...rate };
}

function checkCost(cost: unknown, key: string, spec: BucketSpec): void {
  const isNumber = typeof cost === "number" && Number.isFinite(cost) && cost > 0;
  if (!isNumber) {
    throw new PermanentError(
      `rate.tokens returned ${String(cost)}; it must return a number above 0`,
      {
        code: "BAD_FUNCTION_RESULT",
      },
    );
  }
  if (spec.kind !== "rate" || cost <= spec.burst) return;
  throw new PermanentError(
    `it needs ${cost} tokens at once, and the burst of key ${JSON.stringify(key)} is ${spec.burst}: raise rate.burst`,
    { code: "BAD_FUNCTION_RESULT" },
  );
}
