/**
 * Reporting, renewing and claiming in SQL. Every method runs inside the caller's transaction. A
 * commit takes three round trips, however many chunks it settles and leases: lock and read the
 * reported chunks; write them and read what may be leased; lease it and commit.
 */
import { runAct } from "../../sql/dialect/act.ts";
import type { BatchState } from "../../../core/batch/batch.ts";
import { isEnded } from "../../../core/batch/batch.ts";
import type { ReportResult, StopMode } from "../../../core/batch/chunk.ts";
import { decideCommits, listDueCommits, listRefusals } from "../../../core/items/item-commit.ts";
import { getOutcome, SUCCEEDED } from "../../../core/items/outcome-map.ts";
import { countTried, decideReport } from "../../../core/items/report.ts";
import type { ChunkEffect } from "../../../core/items/tracked-item.ts";
import {
  type LeaseRef,
  type LeaseRequest,
  nameLease,
  type RefusedItem,
  type RenewResult,
  type Report,
  type Stop,
  type WorkResult,
  describeStop,
} from "../../../ports/store/worker-store.ts";
import { readPause } from "../../sql/rows.ts";
import { type HeldRow, StepChanges } from "../../sql/step-changes.ts";
import { byKey } from "../../sql/dialect/by-key.ts";
import type { Chunks, HeldChunk } from "../chunks/chunks.ts";
import { findHeld, type Held } from "../chunks/held-chunks.ts";
import { runItemStatements } from "../chunks/item-statements.ts";
import { type LeaseRun, materialiseRuns, renewRuns } from "../chunks/lease-runs.ts";
import { Leasing } from "./leasing.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { BatchLifecycle } from "../../sql/rules/batch-lifecycle.ts";
import type { ConcurrencyPermits } from "../limits/concurrency-permits.ts";
import { PAUSE_OF_BATCH } from "../connection/rows.ts";
import { findRuns } from "../chunks/runs.ts";
import type { FairShares } from "../limits/fair-shares.ts";
import { statement } from "../connection/statement.ts";
import type { Transaction } from "../connection/transaction.ts";

/** In order, so that two transactions that want several never wait for each other. */
const LOCK_BATCHES = statement(
  "SELECT num FROM batch WHERE id = ANY($1::text[]) ORDER BY num FOR NO KEY UPDATE",
);
const PUT_RESULTS = statement(
  // With the batch's drive and not the item's: an item that a rescued item produced for this step
  // is in its first drive, but is new to the next step.
  `INSERT INTO result (batch, step, item, key, value, drive)
   SELECT n.batch, n.step, n.item, n.key, n.value, b.drive
   FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::text[], $5::text[])
     AS n(batch, step, item, key, value) JOIN batch b ON b.num = n.batch`,
);
const FINISH_CONTENTS = statement(
  `WITH locked AS MATERIALIZED (
     SELECT content FROM content WHERE content = ANY($1::text[]) ORDER BY content FOR UPDATE)
   UPDATE content c SET final = 1
   FROM unnest($1::text[], $2::bigint[], $3::int[], $4::bigint[]) AS n(content, batch, step, item)
   JOIN locked l ON l.content = n.content
   WHERE c.content = n.content AND c.batch = n.batch AND c.step = n.step AND c.item = n.item
     AND c.content = ANY($1::text[])`,
);
const PUT_ABANDONED = statement(
  `INSERT INTO abandoned (batch, step, chunk, items)
   SELECT num, $2, $3, $4 FROM batch WHERE num = $1 AND cancel_mode IS NOT NULL
   ON CONFLICT (batch, step, chunk) DO UPDATE SET items = excluded.items`,
);
const RENEW = statement(
  // The lease of a cancelled batch is not extended, so that a cancel ends within a bounded time.
  `UPDATE chunk c SET lease_until = $5
   FROM unnest($1::bigint[], $2::int[], $3::int[], $4::int[]) AS n(batch, step, first, finish)
   JOIN batch b ON b.num = n.batch AND b.cancel_mode IS DISTINCT FROM 'now'
   ${byKey("chunk", "batch = n.batch AND step = n.step AND chunk >= n.first AND chunk < n.finish")}
   WHERE c.ctid = found.ctid AND b.num = ANY($1::bigint[])`,
);
const SELECT_STOPS = statement(
  `SELECT b.id, b.state, b.cancel_mode, ${PAUSE_OF_BATCH} AS pause FROM batch b
   WHERE b.id = ANY($1::text[])`,
);

const LOCK_BATCH = statement("SELECT num FROM batch WHERE num = $1 FOR NO KEY UPDATE");

/** Other transactions hold the due work: they will finish in a moment. */
const CONTENDED_MS = 1;

/** What a call did; `contended` is the number of a due batch that others had locked. */
export interface Worked {
  readonly result: WorkResult;
  readonly contended: number | null;
}

export interface WorkingParts {
  readonly lifecycle: BatchLifecycle;
  readonly chunks: Chunks;
  readonly shares: FairShares;
  readonly permits: ConcurrencyPermits;
  readonly ledger: Ledger;
}

export class Settling {
  readonly #lifecycle: BatchLifecycle;
  readonly #chunks: Chunks;
  readonly #shares: FairShares;
  readonly #permits: ConcurrencyPermits;
  readonly #ledger: Ledger;
  readonly #leasing: Leasing;

  constructor({ lifecycle, chunks, shares, permits, ledger }: WorkingParts) {
    this.#lifecycle = lifecycle;
    this.#chunks = chunks;
    this.#shares = shares;
    this.#permits = permits;
    this.#ledger = ledger;
    this.#leasing = new Leasing(shares, permits);
  }

  /** The result of a lease that would find and free nothing; null otherwise. */
  async findNothingDue(tx: Transaction, request: LeaseRequest): Promise<WorkResult | null> {
    await tx.begin();
    const [{ isAllowed, wouldChange, permits }, nextDueInMs] = await Promise.all([
      this.#permits.look(tx, request, this.#leasing.listRows(tx, request)),
      this.#leasing.computeNextDue(tx, request),
    ]);
    if (isAllowed || wouldChange) return null;
    return { reports: [], leased: [], nextDueInMs, ended: [], permits };
  }

  /** `waitsFor`: the number of a batch to lock first, waiting for it. */
  async work(
    tx: Transaction,
    reports: readonly Report[],
    request: LeaseRequest | null,
    waitsFor: number | null = null,
  ): Promise<Worked> {
    const held = new Set<number>();
    if (waitsFor !== null) {
      await tx.get(LOCK_BATCH, waitsFor);
      held.add(waitsFor);
    }
    const results: ReportResult[] = Array.from(reports, () => "lost");
    const ended: string[] = [];
    const refused: RefusedItem[] = [];
    for (const round of splitRounds(reports)) {
      const answers = await this.#report(tx, round, held, { ended, refused });
      for (const [nth, { at }] of round.entries()) results[at] = answers[nth] ?? "lost";
    }
    await tx.begin();
    const { contended, ...leased } = await this.#lease(tx, request, [...held]);
    const result = { reports: results, ended, ...leased };
    return { result: refused.length === 0 ? result : { ...result, refused }, contended };
  }

  async #lease(
    tx: Transaction,
    request: LeaseRequest | null,
    held: readonly number[],
  ): Promise<Pick<WorkResult, "leased" | "nextDueInMs" | "permits"> & Pick<Worked, "contended">> {
    if (request === null) return { leased: [], nextDueInMs: null, permits: null, contended: null };
    const { chunks: leased, contended, permits } = await this.#leasing.lease(tx, request, held);
    if (leased.length > 0) return { leased, nextDueInMs: null, permits, contended };
    const nextDueInMs =
      contended === null ? await this.#leasing.computeNextDue(tx, request) : CONTENDED_MS;
    return { leased, nextDueInMs, permits, contended };
  }

  /** Reports of different chunks, in one go. */
  async #report(
    tx: Transaction,
    round: readonly Said[],
    held: Set<number>,
    { ended, refused }: { readonly ended: string[]; readonly refused: RefusedItem[] },
  ): Promise<ReportResult[]> {
    const said = round.map(({ report }) => report);
    const batches = [...new Set(said.map(({ batch }) => batch))];
    const found = Promise.all([
      tx.all<{ num: number }>(LOCK_BATCHES, batches),
      this.#chunks.readHeld(tx, said),
      this.#ledger.look(tx, said),
    ]);
    // No share is locked while statements of users run: they may be slow.
    const isPlain = said.every(({ commits }) => commits.length === 0);
    const reports = isPlain ? said : await runStatements(tx, round, (await found)[1], refused);
    const [[locked, rows, known], shares] = await Promise.all([
      found,
      this.#shares.lockOfSteps(tx, reports),
    ]);
    for (const { num } of locked) held.add(num);
    const leaseUsage = await this.#shares.beginUses(tx, shares);
    const changes = new StepChanges();
    const writes = this.#chunks.begin();
    const links = this.#ledger.begin();
    const done: Settled[] = [];
    const now = Math.floor(tx.now);
    const results = reports.map((report, nth): ReportResult => {
      const chunk = rows[nth];
      if (chunk === undefined) return "lost";
      const { row } = chunk;
      const stored = this.#chunks.readStored(chunk);
      const effect = decideReport(stored, report, now);
      if (report.ledger !== undefined) {
        const blocks = report.ledger.blocks.filter(({ number }) => !known.has(`${nth}/${number}`));
        const place = { ...row, fence: report.fence, worker: chunk.worker };
        links.note(row.batch, place, { stored, effect, cause: "reported", blocks });
      }
      const account = leaseUsage.add(row, {
        busyMs: report.busyMs,
        ends: effect.end !== "kept",
        items: row.finish - row.start,
        tried: countTried(effect, report),
      });
      writes.apply(chunk, effect, changes, account);
      if (effect.end === "yielded") tx.notify();
      done.push({ row, report, effect });
      return effect.end;
    });
    await writes.send(tx);
    sendResults(tx, done);
    sendContents(tx, done);
    sendAbandoned(tx, done);
    await links.send(tx);
    this.#shares.saveUses(tx, leaseUsage);
    for (const num of await this.#chunks.applyChanges(tx, changes)) {
      ended.push(...(await runAct(this.#lifecycle.advanceBatch(tx.rules, num))));
    }
    return results;
  }

  async readStops(tx: Transaction, batches: readonly string[]): Promise<Stop[]> {
    type Row = {
      readonly id: string;
      readonly state: BatchState;
      readonly cancel_mode: StopMode | null;
      readonly pause: string | null;
    };
    const rows = await tx.all<Row>(SELECT_STOPS, batches);
    const byId = new Map(rows.map((row) => [row.id, row]));
    return batches.flatMap((batch): Stop[] => {
      const row = byId.get(batch);
      if (row === undefined || isEnded(row.state)) return [{ batch, kind: "over", mode: "now" }];
      return describeStop(batch, row.cancel_mode, readPause(row.pause)?.mode ?? null);
    });
  }

  async renew(
    tx: Transaction,
    worker: number,
    leases: readonly LeaseRef[],
    leaseMs: number,
  ): Promise<RenewResult> {
    const [, , held] = await Promise.all([
      tx.begin(),
      tx.all(LOCK_BATCHES, [...new Set(leases.map(({ batch }) => batch))]),
      findHeld(tx, leases),
    ]);
    const until = Math.floor(tx.now) + leaseMs;
    const all = [...held.values()];
    sendRenewal(tx, all, until);
    const lost = leases.filter((_lease, nth) => !held.has(nth));
    const own = all.filter((chunk) => chunk.worker === worker).map(({ row }) => row.batch);
    const permits = await this.#permits.renew(tx, worker, [...new Set(own)], until);
    return { lost, permits };
  }
}

/**
 * Runs are renewed as a whole. If only a part of a run is renewed, the rest must expire, so the run
 * is written out.
 */
function sendRenewal(tx: Transaction, held: readonly Held[], until: number): void {
  const named = new Map<LeaseRun, Set<number>>();
  for (const { run, row } of held) {
    if (run === null) continue;
    const chunks = named.get(run) ?? new Set();
    named.set(run, chunks.add(row.chunk));
  }
  const isWhole = (run: LeaseRun): boolean => named.get(run)?.size === run.left_chunks;
  const runs = [...named.keys()];
  renewRuns(tx, runs.filter(isWhole), until);
  materialiseRuns(
    tx,
    runs.filter((run) => !isWhole(run)),
  );
  const alone = held.filter(({ run }) => run === null || !isWhole(run)).map(({ row }) => row);
  const ranges = findRuns(alone, () => true);
  if (ranges.length === 0) return;
  tx.send(
    RENEW,
    ranges.map(([{ batch }]) => batch),
    ranges.map(([{ step }]) => step),
    ranges.map(([{ chunk }]) => chunk),
    ranges.map((range) => range[0].chunk + range.length),
    until,
  );
}

/** The corrected reports, after the statements of their items have run. */
async function runStatements(
  tx: Transaction,
  round: readonly Said[],
  rows: readonly (HeldChunk | undefined)[],
  refused: RefusedItem[],
): Promise<Report[]> {
  const due = round.flatMap(({ report }, nth) => {
    const held = rows[nth];
    const commits = held === undefined ? [] : listDueCommits(held.row, report);
    return commits.map((commit) => ({ report: nth, commit }));
  });
  const faults = await runItemStatements(tx, due);
  return round.map(({ report, at }, nth) => {
    const ofReport = faults.get(nth);
    if (ofReport === undefined) return report;
    for (const refusal of listRefusals(report, ofReport)) refused.push({ report: at, ...refusal });
    return decideCommits(report, ofReport);
  });
}

/** An accepted report. */
interface Settled {
  readonly row: HeldRow;
  readonly report: Report;
  readonly effect: ChunkEffect;
}

function sendResults(tx: Transaction, done: readonly Settled[]): void {
  const all = done.flatMap(({ row, effect }) =>
    effect.results.map(({ index, key, value }) => ({ row, item: row.start + index, key, value })),
  );
  if (all.length === 0) return;
  tx.send(
    PUT_RESULTS,
    all.map(({ row }) => row.batch),
    all.map(({ row }) => row.step),
    all.map(({ item }) => item),
    all.map(({ key }) => key),
    all.map(({ value }) => value),
  );
}

function sendContents(tx: Transaction, done: readonly Settled[]): void {
  const all = done.flatMap(({ row, report, effect }) =>
    report.contents
      .filter(({ index }) => getOutcome(effect.outcomes, index) === SUCCEEDED)
      .map(({ index, content }) => ({ row, item: row.start + index, content })),
  );
  if (all.length === 0) return;
  tx.send(
    FINISH_CONTENTS,
    all.map(({ content }) => content),
    all.map(({ row }) => row.batch),
    all.map(({ row }) => row.step),
    all.map(({ item }) => item),
  );
}

function sendAbandoned(tx: Transaction, done: readonly Settled[]): void {
  for (const { row, report } of done) {
    if (report.abandoned.length === 0) continue;
    const items = report.abandoned.map((index) => row.start + index);
    tx.send(PUT_ABANDONED, row.batch, row.step, row.chunk, JSON.stringify(items));
  }
}

interface Said {
  readonly report: Report;
  /** Its position in the call. */
  readonly at: number;
}

/** For two reports about one lease in one call, the first one is applied first. */
function splitRounds(reports: readonly Report[]): Said[][] {
  const rounds: Said[][] = [];
  const times = new Map<string, number>();
  for (const [at, report] of reports.entries()) {
    const name = nameLease(report);
    const nth = times.get(name) ?? 0;
    times.set(name, nth + 1);
    const round = rounds[nth];
    if (round === undefined) rounds.push([{ report, at }]);
    else round.push({ report, at });
  }
  return rounds;
}
