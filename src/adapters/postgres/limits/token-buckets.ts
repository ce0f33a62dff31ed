/**
 * Token buckets in SQL: a draw locks the rows of all buckets that it draws from, decides, and
 * writes them. An idle key has no row. The server's clock is read after the locks: a draw that
 * waited for them gets the time of its turn and not of its request.
 */
import {
  type BucketSpec,
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
import {
  type BucketRef,
  type ClosedBucket,
  namePaceBucket,
  type TokenDraw,
} from "../../../ports/store/token-store.ts";
import { type BucketRow, toBucketState } from "../../sql/bucket-rows.ts";
import { byKey } from "../../sql/dialect/by-key.ts";
import { statement } from "../connection/statement.ts";
import { LockTaken } from "../../sql/dialect/transaction.ts";
import type { Transaction } from "../connection/transaction.ts";

const NAMED = "unnest($1::text[], $2::text[]) AS n(bucket, key)";
const KNOWN = `SELECT b.bucket, b.key, b.paid_until, b.portions, b.closed_until, b.outages,
    b.outage_mark, b.idle_at
  FROM ${NAMED} JOIN bucket b ON b.bucket = n.bucket AND b.key = n.key
  WHERE b.bucket = ANY($1::text[]) AND b.key = ANY($2::text[])`;
const SELECT = statement(KNOWN);
// In the same order for all, so that two draws from several buckets never wait for each other.
const LOCK = statement(`${KNOWN} ORDER BY b.bucket, b.key FOR UPDATE OF b`);
const INSERT_MISSING = statement(
  `INSERT INTO bucket (bucket, key, idle_at)
   SELECT bucket, key, 0 FROM ${NAMED} ORDER BY bucket COLLATE "C", key COLLATE "C"
   ON CONFLICT (bucket, key) DO NOTHING RETURNING bucket, key`,
);
const UPDATE = statement(
  `UPDATE bucket b SET paid_until = n.paid_until, portions = n.portions,
     closed_until = n.closed_until, outages = n.outages, outage_mark = n.outage_mark,
     idle_at = n.idle_at
   FROM unnest($1::text[], $2::text[], $3::float8[], $4::text[], $5::float8[], $6::int[],
     $7::bigint[], $8::float8[])
     AS n(bucket, key, paid_until, portions, closed_until, outages, outage_mark, idle_at)
   ${byKey("bucket", "bucket = n.bucket AND key = n.key")}
   WHERE b.ctid = found.ctid`,
);
const DROP = statement(
  `DELETE FROM bucket b USING ${NAMED}
   ${byKey("bucket", "bucket = n.bucket AND key = n.key")} WHERE b.ctid = found.ctid`,
);
const SELECT_RATES = statement(
  `SELECT name, value FROM limit_setting
   WHERE kind = 'rate' AND scope = 'rate' AND name = ANY($1::text[])`,
);
const FIND_ANY_RATE = statement("SELECT 1 FROM limit_setting WHERE kind = 'rate' LIMIT 1");
const COUNT_ENDED = statement(
  "SELECT planned - pending AS ended FROM step WHERE batch = $1 AND step = $2",
);
const SELECT_CLOSED = statement(
  `SELECT bucket, key, closed_until FROM bucket
   WHERE closed_until > 0 AND closed_until > $1 ORDER BY bucket, key`,
);

/** A bucket during one transaction. */
interface Entry {
  readonly ref: BucketRef;
  /** Its row was inserted in order to be locked. */
  readonly isNew: boolean;
  state: BucketState;
  idleAt: number;
  isChanged: boolean;
}

type Book = ReadonlyMap<string, Entry>;
type KnownRow = BucketRow & BucketRef;

export class TokenBuckets {
  async draw(tx: Transaction, draws: readonly TokenDraw[], slackMs: number): Promise<TokenGrant[]> {
    const asked = this.#readRates(tx, draws);
    // A bucket without a rate is limited only if an operator set one.
    const rated = draws.some(({ spec }) => spec.kind === "open") ? await asked : null;
    const isLimited = (draw: TokenDraw): boolean =>
      draw.spec.kind !== "open" || (rated !== null && findRate(rated, draw) !== null);
    const [rates, locked, known, time] = await Promise.all([
      asked,
      this.#lock(tx, draws.filter(isLimited)),
      this.#read(
        tx,
        draws.filter((draw) => !isLimited(draw)),
      ),
      tx.readNow(),
    ]);
    // Not rounded to whole milliseconds: a token's date would be up to one too early.
    const instant = { monotonicMs: time.now, wallMs: Math.floor(time.wallMs) };
    const grants = draws.map((draw) => {
      const { cost, count } = draw;
      const name = nameBucket(draw);
      const entry = locked.get(name) ?? known.get(name) ?? createEntry(draw, false);
      const spec: BucketSpec = overrideRate(draw.spec, findRate(rates, draw), cost);
      const { state, grant } = decideDraw(entry.state, spec, { cost, count, slackMs }, instant);
      if (state !== entry.state) change(entry, state, findBucketEnd(state, spec));
      return grant;
    });
    save(tx, locked);
    return grants;
  }

  /** The operators' rates for these buckets, by name. */
  async #readRates(
    tx: Transaction,
    draws: readonly BucketRef[],
  ): Promise<ReadonlyMap<string, Rate>> {
    const names = new Set(draws.flatMap(({ bucket, key }) => listRateNames(bucket, key)));
    if (names.size === 0) return new Map();
    type Row = { readonly name: string; readonly value: string };
    const rows = await tx.all<Row>(SELECT_RATES, [...names]);
    return new Map(rows.map(({ name, value }) => [name, JSON.parse(value) as Rate]));
  }

  /** Every bucket has a row, and this transaction has locked it. */
  async #lock(tx: Transaction, refs: readonly BucketRef[]): Promise<Book> {
    const distinct = [...new Map(refs.map((ref) => [nameBucket(ref), ref])).values()];
    if (distinct.length === 0) return new Map();
    const named = listNames(distinct);
    const [inserted, rows] = await Promise.all([
      tx.all<BucketRef>(INSERT_MISSING, ...named),
      tx.all<KnownRow>(LOCK, ...named),
    ]);
    // A sweep removed one between the two statements.
    if (rows.length < distinct.length) throw new LockTaken("bucket");
    return toLockedBuckets(rows, new Set(inserted.map(nameBucket)));
  }

  async #read(tx: Transaction, refs: readonly BucketRef[]): Promise<Book> {
    if (refs.length === 0) return new Map();
    return toLockedBuckets(await tx.all<KnownRow>(SELECT, ...listNames(refs)));
  }

  /** One bucket, and the time of the store. */
  async #lockOne(
    tx: Transaction,
    ref: BucketRef,
  ): Promise<{ readonly locked: Book; readonly entry: Entry; readonly now: number }> {
    const [locked, { now }] = await Promise.all([this.#lock(tx, [ref]), tx.readNow()]);
    return { locked, entry: locked.get(nameBucket(ref)) as Entry, now };
  }

  async close(tx: Transaction, ref: BucketRef, forMs: number): Promise<void> {
    const { locked, entry, now } = await this.#lockOne(tx, ref);
    const until = Math.max(entry.state.closedUntil, now + forMs);
    change(entry, { ...entry.state, closedUntil: until }, Math.max(entry.idleAt, until));
    save(tx, locked);
  }

  async noteOutage(
    tx: Transaction,
    batch: string,
    num: number,
    step: number,
    forMs: number,
  ): Promise<number> {
    const [{ locked, entry, now }, row] = await Promise.all([
      this.#lockOne(tx, namePaceBucket(batch, step)),
      tx.get<{ readonly ended: number }>(COUNT_ENDED, num, step),
    ]);
    const state = countOutage(entry.state, row?.ended ?? 0, forMs, now);
    change(entry, state, Math.max(entry.idleAt, findClosingEnd(state)));
    save(tx, locked);
    return state.outages;
  }

  async open(tx: Transaction, ref: BucketRef): Promise<boolean> {
    const [rows, { now }] = await Promise.all([
      tx.all<KnownRow>(LOCK, ...listNames([ref])),
      tx.readNow(),
    ]);
    const locked = toLockedBuckets(rows);
    const entry = locked.get(nameBucket(ref));
    if (entry === undefined || entry.state.closedUntil <= now) return false;
    change(entry, { ...entry.state, closedUntil: 0 }, entry.idleAt);
    save(tx, locked);
    tx.notify();
    return true;
  }

  async listClosed(tx: Transaction): Promise<ClosedBucket[]> {
    await tx.begin();
    const { now } = tx;
    type Row = BucketRef & { readonly closed_until: number };
    const rows = await tx.all<Row>(SELECT_CLOSED, now);
    return rows.map(({ bucket, key, closed_until: until }) => ({
      bucket,
      key,
      forMs: until - now,
    }));
  }

  /** Whether an operator has set any rate. */
  async hasRates(tx: Transaction): Promise<boolean> {
    return (await tx.get(FIND_ANY_RATE)) !== undefined;
  }
}

function nameBucket({ bucket, key }: BucketRef): string {
  return JSON.stringify([bucket, key]);
}

function listNames(refs: readonly BucketRef[]): [string[], string[]] {
  return [refs.map(({ bucket }) => bucket), refs.map(({ key }) => key)];
}

/** The most exact of the operators' rates for a bucket. */
function findRate(rates: ReadonlyMap<string, Rate>, { bucket, key }: BucketRef): Rate | null {
  for (const name of listRateNames(bucket, key)) {
    const rate = rates.get(name);
    if (rate !== undefined) return rate;
  }
  return null;
}

/** The state of a new bucket. */
function createEntry({ bucket, key }: BucketRef, isNew: boolean): Entry {
  return { ref: { bucket, key }, isNew, state: NEW_BUCKET, idleAt: 0, isChanged: false };
}

function toLockedBuckets(
  rows: readonly KnownRow[],
  inserted: ReadonlySet<string> = new Set(),
): Book {
  return new Map(
    rows.map((row) => {
      const name = nameBucket(row);
      const entry = createEntry(row, inserted.has(name));
      if (!entry.isNew) {
        entry.state = toBucketState(row);
        entry.idleAt = row.idle_at;
      }
      return [name, entry];
    }),
  );
}

function change(entry: Entry, state: BucketState, idleAt: number): void {
  entry.state = state;
  entry.idleAt = idleAt;
  entry.isChanged = true;
}

/** Writes the changes; deletes rows that were inserted only to be locked. */
function save(tx: Transaction, locked: Book): void {
  const entries = [...locked.values()];
  const changed = entries.filter(({ isChanged }) => isChanged);
  if (changed.length > 0) {
    tx.send(
      UPDATE,
      ...listNames(changed.map(({ ref }) => ref)),
      changed.map(({ state }) => state.paidUntil),
      changed.map(({ state }) => JSON.stringify(state.portions)),
      changed.map(({ state }) => state.closedUntil),
      changed.map(({ state }) => state.outages),
      changed.map(({ state }) => state.outageMark),
      changed.map(({ idleAt }) => idleAt),
    );
  }
  const idle = entries.filter(({ isNew, isChanged }) => isNew && !isChanged);
  if (idle.length > 0) tx.send(DROP, ...listNames(idle.map(({ ref }) => ref)));
}
