/** Closes a key of a rate by hand: no item of it starts until then, in any worker. */
import type { Unnamed } from "../../core/base/unnamed.ts";
import { RATE_BUCKETS } from "../../core/limits/bucket.ts";
import { SluiceError } from "../../core/base/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Store } from "../../ports/store/store.ts";
import { nameRateBucket } from "../pipeline/step-rate.ts";

/** How long a key stays closed: until an instant, or for a duration from now. */
export type Closing = { readonly until: Date } | { readonly forMs: number };

/** A key that is closed now. */
export type ClosedKey = Unnamed<{
  /** The rate's name; default the pipeline's name. */
  readonly rate: string;
  readonly key: string;
  readonly forMs: number;
}>;

/** Longest time that a key can be closed: one year. */
const FOR_MS_MAX = 366 * 86_400_000;

export async function closeKey(
  store: Store,
  clock: Clock,
  { rate, key }: Pick<ClosedKey, "rate" | "key">,
  closing: Closing,
): Promise<void> {
  const forMs =
    "until" in closing ? new Date(closing.until).getTime() - clock.wallMs() : closing.forMs;
  if (!(forMs > 0 && forMs <= FOR_MS_MAX)) {
    throw new SluiceError("BAD_OPTION", `key ${JSON.stringify(key)} cannot be closed for that`, {
      field: "until" in closing ? "until" : "forMs",
      hint: "Give an `until` in the future, or a `forMs` above 0; at most one year.",
    });
  }
  await store.closeBucket({ bucket: nameRateBucket(rate), key }, forMs);
}

export async function listClosedKeys(store: Store): Promise<ClosedKey[]> {
  return (await store.listClosed())
    .filter(({ bucket }) => bucket.startsWith(RATE_BUCKETS))
    .map(({ bucket, key, forMs }) => ({ rate: bucket.slice(RATE_BUCKETS.length), key, forMs }));
}
