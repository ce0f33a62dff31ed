/** Token buckets of the reference model. */
import {
  countOutage,
  decideDraw,
  findBucketEnd,
  findClosingEnd,
  listRateNames,
  NEW_BUCKET,
  overrideRate,
  type TokenGrant,
} from "../../core/limits/bucket.ts";
import type { Rate } from "../../core/limits/token-bucket.ts";
import type { Clock } from "../../ports/clock.ts";
import {
  type BucketRef,
  type ClosedBucket,
  namePaceBucket,
  type TokenDraw,
} from "../../ports/store/token-store.ts";
import { type Batch, nameLimit, type State } from "./state.ts";

export class TokenBuckets {
  readonly #state: State;
  readonly #clock: Clock;

  constructor(state: State, clock: Clock) {
    this.#state = state;
    this.#clock = clock;
  }

  draw(draws: readonly TokenDraw[], slackMs: number): TokenGrant[] {
    const time = { monotonicMs: this.#clock.monotonicMs(), wallMs: this.#clock.wallMs() };
    return draws.map(({ spec: declared, cost, count, ...ref }) => {
      const spec = overrideRate(declared, this.#findRate(ref), cost);
      const name = nameBucket(ref);
      const before = this.#state.buckets.get(name)?.state ?? NEW_BUCKET;
      const { state, grant } = decideDraw(before, spec, { cost, count, slackMs }, time);
      this.#state.buckets.set(name, { state, idleAt: findBucketEnd(state, spec) });
      return grant;
    });
  }

  /** The operator's rate. */
  #findRate({ bucket, key }: BucketRef): Rate | null {
    for (const name of listRateNames(bucket, key)) {
      const set = this.#state.limits.get(nameLimit({ kind: "rate", scope: "rate", name }));
      if (typeof set?.value === "object") return set.value;
    }
    return null;
  }

  close(ref: BucketRef, forMs: number): void {
    const known = this.#state.buckets.get(nameBucket(ref));
    const before = known?.state ?? NEW_BUCKET;
    const until = Math.max(before.closedUntil, this.#clock.monotonicMs() + forMs);
    this.#state.buckets.set(nameBucket(ref), {
      state: { ...before, closedUntil: until },
      idleAt: Math.max(known?.idleAt ?? 0, until),
    });
  }

  noteOutage(batch: Batch, step: number, forMs: number): number {
    const name = nameBucket(namePaceBucket(batch.submission.id, step));
    const known = this.#state.buckets.get(name);
    const { planned = 0, pending = 0 } = batch.steps[step]?.counts ?? {};
    const now = this.#clock.monotonicMs();
    const state = countOutage(known?.state ?? NEW_BUCKET, planned - pending, forMs, now);
    const idleAt = Math.max(known?.idleAt ?? 0, findClosingEnd(state));
    this.#state.buckets.set(name, { state, idleAt });
    return state.outages;
  }

  open(ref: BucketRef): boolean {
    const known = this.#state.buckets.get(nameBucket(ref));
    if (known === undefined || known.state.closedUntil <= this.#clock.monotonicMs()) return false;
    const state = { ...known.state, closedUntil: 0 };
    this.#state.buckets.set(nameBucket(ref), { ...known, state });
    return true;
  }

  listClosed(): ClosedBucket[] {
    const now = this.#clock.monotonicMs();
    return [...this.#state.buckets]
      .filter(([, { state }]) => state.closedUntil > now)
      .map(([name, { state }]) => {
        const [bucket, key] = JSON.parse(name) as [string, string];
        return { bucket, key, forMs: state.closedUntil - now };
      })
      .toSorted((a, b) => compare(a.bucket, b.bucket) || compare(a.key, b.key));
  }

  /** A bucket that equals a new one need not be remembered. */
  forgetIdle(): void {
    const now = this.#clock.monotonicMs();
    for (const [name, { idleAt }] of this.#state.buckets) {
      if (idleAt <= now) this.#state.buckets.delete(name);
    }
  }
}

function nameBucket({ bucket, key }: BucketRef): string {
  return JSON.stringify([bucket, key]);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
