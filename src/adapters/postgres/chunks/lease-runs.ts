/**
 * Chunks that are leased together and for the first time: one row in `lease` stands for all of
 * them, and their own rows are not written. The row of such a chunk still says `planned`; its fence
 * is one higher than its row says. A chunk leaves its run when its row is written: settled, given
 * back, or flushed, which makes it individually leased. Code that looks for leased chunks must
 * check both kinds, or write the runs out first, under the lock of their batch.
 */
import { byKey } from "../../sql/dialect/by-key.ts";
import { LOST_RUN } from "../../sql/lease-run-of.ts";
import { statement } from "../connection/statement.ts";
import type { Transaction } from "../connection/transaction.ts";

export interface LeaseRun {
  /** The number of its batch. */
  readonly batch: number;
  readonly step: number;
  /** Chunks [first, finish). */
  readonly first: number;
  readonly finish: number;
  /** How many of them have not left it. */
  readonly left_chunks: number;
  readonly worker: number;
  readonly until: number;
  /** What each item is charged. */
  readonly item_cost: number;
}

const INSERT = statement(
  `INSERT INTO lease (batch, step, first, finish, left_chunks, worker, until, item_cost)
   VALUES ($1, $2, $3::int, $4::int, $4::int - $3::int, $5, $6, $7)`,
);
// Starts at the last run that begins before the range: older runs are not scanned.
const SELECT = statement(
  `SELECT r.* FROM unnest($1::text[], $2::int[], $3::int[], $4::int[]) AS l(id, step, first, finish)
   JOIN batch b ON b.id = l.id
   CROSS JOIN LATERAL (SELECT * FROM lease o WHERE o.batch = b.num AND o.step = l.step
     AND o.first >= coalesce((SELECT i.first FROM lease i WHERE i.batch = b.num AND i.step = l.step
       AND i.first <= l.first ORDER BY i.first DESC LIMIT 1), l.first)
     AND o.first < l.finish ORDER BY o.first OFFSET 0) AS r
   WHERE b.id = ANY($1::text[])`,
);
const KEYS = "unnest($1::bigint[], $2::int[], $3::int[])";
const BY_KEY = byKey("lease", "batch = n.batch AND step = n.step AND first = n.first");
const LESSEN = statement(
  `UPDATE lease r SET left_chunks = r.left_chunks - n.chunks
   FROM unnest($1::bigint[], $2::int[], $3::int[], $4::int[]) AS n(batch, step, first, chunks)
   ${BY_KEY} WHERE r.ctid = found.ctid`,
);
const DELETE = statement(
  `DELETE FROM lease r USING ${KEYS} AS n(batch, step, first) ${BY_KEY} WHERE r.ctid = found.ctid`,
);
const RENEW = statement(
  // The lease of a cancelled batch is not extended, so that a cancel ends within a bounded time.
  `UPDATE lease r SET until = $4 FROM ${KEYS} AS n(batch, step, first)
   JOIN batch b ON b.num = n.batch AND b.cancel_mode IS DISTINCT FROM 'now'
   ${BY_KEY} WHERE r.ctid = found.ctid AND b.num = ANY($1::bigint[])`,
);

/** Turns runs into individually leased chunks. `which` selects the runs, `r`. */
function composeWriteOut(which: string): string {
  return `WITH run AS (DELETE FROM lease r ${which}
     RETURNING r.batch, r.step, r.first, r.finish, r.worker, r.until, r.item_cost)
   UPDATE chunk c SET state = 'leased', fence = c.fence + 1, worker = run.worker,
     lease_until = run.until, charge = (c.finish - c.start) * run.item_cost, busy_ms = 0
   FROM run ${byKey(
     "chunk",
     `batch = run.batch AND step = run.step AND chunk >= run.first AND chunk < run.finish
        AND state = 'planned'`,
   )}
   WHERE c.ctid = found.ctid`;
}

const WRITE_OUT = statement(composeWriteOut("WHERE r.batch = $1"));
const WRITE_OUT_LOST = statement(composeWriteOut(`WHERE ${LOST_RUN} AND r.batch = $3`));
const WRITE_OUT_SOME = statement(
  composeWriteOut(`USING ${KEYS} AS n(batch, step, first) ${BY_KEY} WHERE r.ctid = found.ctid`),
);

/** Leases chunks that were never leased, with one row. */
export function insertRun(tx: Transaction, run: Omit<LeaseRun, "left_chunks">): void {
  const { batch, step, first, finish, worker, until, item_cost: cost } = run;
  tx.send(INSERT, batch, step, first, finish, worker, until, cost);
}

/**
 * Turns every run of the batch into individually leased chunks; the caller has the batch's lock.
 */
export function materialise(tx: Transaction, batch: number): void {
  tx.send(WRITE_OUT, batch);
}

/** The same for runs that expired by `now`, or that one of the `gone` workers holds. */
export function materialiseLost(
  tx: Transaction,
  batch: number,
  now: number,
  gone: readonly number[],
): void {
  tx.send(WRITE_OUT_LOST, now, gone, batch);
}

export function materialiseRuns(tx: Transaction, runs: readonly LeaseRun[]): void {
  if (runs.length > 0) tx.send(WRITE_OUT_SOME, ...listKeys(runs));
}

export function renewRuns(tx: Transaction, runs: readonly LeaseRun[], until: number): void {
  if (runs.length > 0) tx.send(RENEW, ...listKeys(runs), until);
}

/** Removes chunks from their runs; the list has the run once for every chunk. */
export function leaveRuns(tx: Transaction, left: readonly LeaseRun[]): void {
  const counts = new Map<LeaseRun, number>();
  for (const run of left) counts.set(run, (counts.get(run) ?? 0) + 1);
  const [ended, rest] = [[], []] as [LeaseRun[], LeaseRun[]];
  for (const [run, chunks] of counts) (chunks < run.left_chunks ? rest : ended).push(run);
  if (ended.length > 0) tx.send(DELETE, ...listKeys(ended));
  if (rest.length === 0) return;
  tx.send(
    LESSEN,
    ...listKeys(rest),
    rest.map((run) => counts.get(run) ?? 0),
  );
}

function listKeys(runs: readonly LeaseRun[]): [number[], number[], number[]] {
  return [
    runs.map(({ batch }) => batch),
    runs.map(({ step }) => step),
    runs.map(({ first }) => first),
  ];
}

/** Chunks [first, finish) of a step of the batch with this id. */
export interface AskedRange {
  readonly batch: string;
  readonly step: number;
  readonly first: number;
  readonly finish: number;
}

/**
 * The runs that contain chunks of these ranges. To be read before the chunks themselves: a run that
 * is written out in between is then found as chunks.
 */
export async function readRuns(
  tx: Transaction,
  ranges: readonly AskedRange[],
): Promise<LeaseRunIndex> {
  const spans = new Map<string, { -readonly [Key in keyof AskedRange]: AskedRange[Key] }>();
  for (const range of ranges) {
    const name = `${range.batch}/${range.step}`;
    const span = spans.get(name);
    if (span === undefined) spans.set(name, { ...range });
    else {
      span.first = Math.min(span.first, range.first);
      span.finish = Math.max(span.finish, range.finish);
    }
  }
  const all = [...spans.values()];
  const runs = await tx.all<LeaseRun>(
    SELECT,
    all.map(({ batch }) => batch),
    all.map(({ step }) => step),
    all.map(({ first }) => first),
    all.map(({ finish }) => finish),
  );
  return new LeaseRunIndex(runs);
}

export class LeaseRunIndex {
  readonly #runs: readonly LeaseRun[];
  #last: LeaseRun | undefined;

  constructor(runs: readonly LeaseRun[]) {
    this.#runs = runs;
  }

  /**
   * The run that contains the chunk. Calls usually come in order, so the last answer is tried
   * first.
   */
  find(batch: number, step: number, chunk: number): LeaseRun | undefined {
    const has = (run: LeaseRun): boolean =>
      run.batch === batch && run.step === step && run.first <= chunk && run.finish > chunk;
    if (this.#last === undefined || !has(this.#last)) this.#last = this.#runs.find(has);
    return this.#last;
  }
}
