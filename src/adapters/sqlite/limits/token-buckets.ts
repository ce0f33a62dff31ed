/** Token buckets in SQL: each draw reads, decides and writes one row. An idle key has no row. */
import type { StatementSync } from "node:sqlite";
import {
  type BucketState,
  countOutage,
  decideDraw,
  findBucketEnd,
  findClosingEnd,
  listRateNames,
  NEW_BUCKET,
  overrideRate,
  type TokenGrant,
} from "../../../core/limits/bucket.ts";
import type { Rate } from "../../../core/limits/token-bucket.ts";
import type { Clock } from "../../../ports/clock.ts";
import {
  type BucketRef,
  type ClosedBucket,
  namePaceBucket,
  type TokenDraw,
} from "../../../ports/store/token-store.ts";
import { type BucketRow, toBucketState } from "../../sql/bucket-rows.ts";
import type { Connection } from "../connection/connection.ts";

const PUT = `INSERT INTO bucket (bucket, key, paid_until, portions, closed_until, outages,
    outage_mark, idle_at, saved_at, saved_at_monotonic)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (bucket, key) DO UPDATE SET paid_until = excluded.paid_until,
    portions = excluded.portions, closed_until = excluded.closed_until,
    outages = excluded.outages, outage_mark = excluded.outage_mark, idle_at = excluded.idle_at, saved_at = excluded.saved_at,
    saved_at_monotonic = excluded.saved_at_monotonic`;

export class TokenBuckets {
  readonly #clock: Clock;
  readonly #select: StatementSync;
  readonly #put: StatementSync;
  readonly #selectRate: StatementSync;
  readonly #findAnyRate: StatementSync;
  readonly #countEnded: StatementSync;
  readonly #selectClosed: StatementSync;

  constructor(connection: Connection, clock: Clock) {
    this.#clock = clock;
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    this.#select = prepare(
      `SELECT paid_until, portions, closed_until, outages, outage_mark, idle_at FROM bucket
       WHERE bucket = ? AND key = ?`,
    );
    this.#put = prepare(PUT);
    this.#selectRate = prepare(
      "SELECT value FROM limit_setting WHERE kind = 'rate' AND scope = 'rate' AND name = ?",
    );
    this.#findAnyRate = prepare("SELECT 1 FROM limit_setting WHERE kind = 'rate' LIMIT 1");
    this.#countEnded = prepare(
      "SELECT planned - pending AS ended FROM step WHERE batch = ? AND step = ?",
    );
    this.#selectClosed = prepare(
      `SELECT bucket, key, closed_until FROM bucket INDEXED BY bucket_closed
       WHERE closed_until > 0 AND closed_until > ? ORDER BY bucket, key`,
    );
  }

  draw(draws: readonly TokenDraw[], slackMs: number): TokenGrant[] {
    // Not rounded to whole milliseconds: a token's date would be up to one too early.
    const time = { monotonicMs: this.#clock.monotonicMs(), wallMs: this.#clock.wallMs() };
    return draws.map((draw) => {
      const { cost, count } = draw;
      const spec = overrideRate(draw.spec, this.#findRate(draw), cost);
      const row = this.#find(draw);
      const before = row === undefined ? NEW_BUCKET : toBucketState(row);
      const { state, grant } = decideDraw(before, spec, { cost, count, slackMs }, time);
      if (state !== before) this.#save(draw, state, findBucketEnd(state, spec));
      return grant;
    });
  }

  /** The operator's rate. */
  #findRate({ bucket, key }: BucketRef): Rate | null {
    for (const name of listRateNames(bucket, key)) {
      const row = this.#selectRate.get(name) as { value: string } | undefined;
      if (row !== undefined) return JSON.parse(row.value) as Rate;
    }
    return null;
  }

  close(ref: BucketRef, forMs: number): void {
    const row = this.#find(ref);
    const before = row === undefined ? NEW_BUCKET : toBucketState(row);
    const until = Math.max(before.closedUntil, this.#clock.monotonicMs() + forMs);
    const state = { ...before, closedUntil: until };
    this.#save(ref, state, Math.max(row?.idle_at ?? 0, until));
  }

  noteOutage(batch: string, num: number, step: number, forMs: number): number {
    const ref = namePaceBucket(batch, step);
    const row = this.#find(ref);
    const before = row === undefined ? NEW_BUCKET : toBucketState(row);
    const { ended } = (this.#countEnded.get(num, step) as { ended: number } | undefined) ?? {
      ended: 0,
    };
    const state = countOutage(before, ended, forMs, this.#clock.monotonicMs());
    this.#save(ref, state, Math.max(row?.idle_at ?? 0, findClosingEnd(state)));
    return state.outages;
  }

  open(ref: BucketRef): boolean {
    const row = this.#find(ref);
    if (row === undefined || row.closed_until <= this.#clock.monotonicMs()) return false;
    this.#save(ref, { ...toBucketState(row), closedUntil: 0 }, row.idle_at);
    return true;
  }

  listClosed(): ClosedBucket[] {
    const now = this.#clock.monotonicMs();
    type Row = BucketRef & { closed_until: number };
    return (this.#selectClosed.all(now) as unknown as Row[]).map(
      ({ bucket, key, closed_until: until }) => ({ bucket, key, forMs: until - now }),
    );
  }

  /** Whether an operator has set any rate. */
  hasRates(): boolean {
    return this.#findAnyRate.get() !== undefined;
  }

  #find({ bucket, key }: BucketRef): BucketRow | undefined {
    return this.#select.get(bucket, key) as BucketRow | undefined;
  }

  #save(ref: BucketRef, state: BucketState, idleAt: number): void {
    save(this.#put, this.#clock, ref, state, idleAt);
  }
}

function save(
  put: StatementSync,
  clock: Clock,
  { bucket, key }: BucketRef,
  { paidUntil, portions, closedUntil, outages, outageMark }: BucketState,
  idleAt: number,
): void {
  const spent = JSON.stringify(portions);
  const closing = [closedUntil, outages, outageMark] as const;
  const clocks = [Math.floor(clock.wallMs()), clock.monotonicMs()] as const;
  put.run(bucket, key, paidUntil, spent, ...closing, idleAt, ...clocks);
}

/**
 * After a reboot monotonic times start again: each keeps its remaining time, by the wall clock. If
 * that clock was set back meanwhile, it lasts longer, never shorter.
 */
export function adoptBuckets(connection: Connection, clock: Clock): void {
  type Row = BucketRow & BucketRef & { saved_at: number; saved_at_monotonic: number };
  const rows = connection.prepare("SELECT * FROM bucket").all() as unknown as Row[];
  const put = connection.prepare(PUT);
  for (const row of rows) {
    const elapsedMs = Math.max(0, clock.wallMs() - row.saved_at);
    const translate = (at: number): number =>
      clock.monotonicMs() + Math.max(0, at - row.saved_at_monotonic - elapsedMs);
    const before = toBucketState(row);
    const { paidUntil, portions, closedUntil } = before;
    const state = {
      ...before,
      paidUntil: paidUntil === null ? null : translate(paidUntil),
      portions: portions.map(({ count, from, until }) => ({
        count,
        from: translate(from),
        until: translate(until),
      })),
      closedUntil: closedUntil === 0 ? 0 : translate(closedUntil),
    };
    save(put, clock, row, state, translate(row.idle_at));
  }
}
