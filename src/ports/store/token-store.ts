/**
 * The store as a limiter sees it: the right to start something is drawn from buckets that all
 * workers share. What is granted is written down before it is used, and is simply lost when its
 * holder dies: nothing is given back, and no limit is ever passed.
 */
import type { BucketSpec, TokenGrant } from "../../core/limits/bucket.ts";

export interface BucketRef {
  /** What it belongs to: `rate/<name>` or `pace/<batch>`. */
  readonly bucket: string;
  /** Which of its keys; empty where there are none. */
  readonly key: string;
}

/** What one start takes from one bucket. */
export interface TokenNeed extends BucketRef {
  readonly spec: BucketSpec;
  /** Tokens that one start takes. */
  readonly cost: number;
}

export interface TokenDraw extends TokenNeed {
  /** Starts that are wished for. */
  readonly count: number;
}

/** The bucket of a batch's own pace. */
export function namePaceBucket(batch: string, step: number): BucketRef {
  return { bucket: `pace/${batch}/${step}`, key: "" };
}

export interface TokenStore {
  /**
   * Draws from any number of buckets in one commit; one answer for each, in order. Dates count from
   * the moment of the commit: the caller must take the time of its question for the end of a token,
   * and that of the answer for its beginning. `slackMs` is how long answers may take.
   */
  draw(draws: readonly TokenDraw[], slackMs: number): Promise<readonly TokenGrant[]>;
  /** Nothing is granted of it for so long; one that is closed for longer stays so. */
  closeBucket(bucket: BucketRef, forMs: number): Promise<void>;
  /**
   * What a batch's items go out through is away: closes the bucket of its pace, and answers how often
   * in a row that has happened since an item of it last ended.
   */
  noteOutage(batch: string, step: number, forMs: number): Promise<number>;
  /** A bucket that was closed grants again; false when it was not. */
  openBucket(bucket: BucketRef): Promise<boolean>;
  /** Those that are closed now, by name. */
  listClosed(): Promise<readonly ClosedBucket[]>;
}

export interface ClosedBucket extends BucketRef {
  readonly forMs: number;
}
