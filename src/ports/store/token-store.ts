/**
 * The store as a limiter sees it: the right to start something is drawn from buckets that all
 * workers share. A grant is written before it is used, and is lost when its holder dies: nothing is
 * given back, so no limit is ever exceeded.
 */
import type { BucketSpec, TokenGrant } from "../../core/limits/bucket.ts";

export interface BucketRef {
  /** What it limits: `rate/<name>` or `pace/<batch>/<step>`. */
  readonly bucket: string;
  /** The key; empty for a bucket without keys. */
  readonly key: string;
}

/** What one start takes from one bucket. */
export interface TokenNeed extends BucketRef {
  readonly spec: BucketSpec;
  /** Tokens that one start takes. */
  readonly cost: number;
}

export interface TokenDraw extends TokenNeed {
  /** How many starts the caller wants. */
  readonly count: number;
}

/** The bucket of a batch's own pace. */
export function namePaceBucket(batch: string, step: number): BucketRef {
  return { bucket: `pace/${batch}/${step}`, key: "" };
}

export interface TokenStore {
  /**
   * Draws from any number of buckets in one commit; returns one answer for each, in order. Dates
   * count from the moment of the commit. The caller must count a token's end from the time of its
   * question, and its beginning from the time of the answer. `slackMs` is how long answers may
   * take.
   */
  draw(draws: readonly TokenDraw[], slackMs: number): Promise<readonly TokenGrant[]>;
  /** Grants nothing from this bucket for this time; a longer closing stays. */
  closeBucket(bucket: BucketRef, forMs: number): Promise<void>;
  /**
   * The system that a batch's items are sent through is unavailable: closes the bucket of its pace.
   * Returns how many times in a row this has happened since one of its items last ended.
   */
  noteOutage(batch: string, step: number, forMs: number): Promise<number>;
  /** Opens a closed bucket; false when it was not closed. */
  openBucket(bucket: BucketRef): Promise<boolean>;
  /** The buckets that are closed now, by name. */
  listClosed(): Promise<readonly ClosedBucket[]>;
}

export interface ClosedBucket extends BucketRef {
  readonly forMs: number;
}
