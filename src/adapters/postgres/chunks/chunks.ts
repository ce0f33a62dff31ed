/**
 * Applies reports and losses to chunks and to their steps' counters, in SQL: one statement each for
 * any number of chunks.
 */
import type { LeaseAccount } from "../../../core/limits/fair-share.ts";
import type { ChunkEffect, StoredChunk, TrackedItem } from "../../../core/items/tracked-item.ts";
import type { LeaseRef } from "../../../ports/store/worker-store.ts";
import { type ItemRow, toTrackedItem } from "../../sql/rows.ts";
import type { HeldRow, StepChanges } from "../../sql/step-changes.ts";
import { byKey } from "../../sql/dialect/by-key.ts";
import { findHeld, type Held, prefix } from "./held-chunks.ts";
import { type LeaseRun, leaveRuns } from "./lease-runs.ts";
import { ITEM_COLUMNS } from "../connection/rows.ts";
import { findRuns, type Place } from "./runs.ts";
import { statement } from "../connection/statement.ts";
import type { KnownBatches } from "../../sql/topics/message-origin.ts";
import { MessageDrafts } from "../topics/topics.ts";
import type { Transaction } from "../connection/transaction.ts";

const SELECT_TRACKED = statement(
  `SELECT c.batch AS batch_num, c.step AS step_num, c.chunk AS chunk_num,
     ${prefix(ITEM_COLUMNS, "i")}
   FROM unnest($1::bigint[], $2::int[], $3::int[]) AS l(batch, step, chunk)
   CROSS JOIN LATERAL (SELECT * FROM chunk o
     WHERE o.batch = l.batch AND o.step = l.step AND o.chunk = l.chunk AND o.tracked = 1
     OFFSET 0) AS c
   CROSS JOIN LATERAL (SELECT * FROM item o WHERE o.batch = c.batch AND o.step = c.step
     AND o.item >= c.start AND o.item < c.finish OFFSET 0) AS i
   ORDER BY i.item`,
);
// The charge of an ended lease is not needed any more.
const UPDATE = statement(
  `UPDATE chunk c SET state = n.state, due_at = n.due_at, outcomes = n.outcomes,
     tracked = greatest(c.tracked, n.tracks), losses = n.losses,
     charge = coalesce(n.charge, c.charge), busy_ms = coalesce(n.busy_ms, c.busy_ms),
     rest_hold_up = n.hold_up, rest_key = n.key, fence = c.fence + n.raise,
     worker = CASE n.state WHEN 'leased' THEN coalesce(n.worker, c.worker) ELSE 0 END,
     lease_until = coalesce(n.until, c.lease_until)
   FROM unnest($1::bigint[], $2::int[], $3::int[], $4::int[], $5::text[], $6::bigint[],
     $7::bytea[], $8::smallint[], $9::int[], $10::float8[], $11::float8[], $12::text[],
     $13::text[], $14::int[], $15::bigint[], $16::bigint[])
     AS n(batch, step, first, finish, state, due_at, outcomes, tracks, losses, charge, busy_ms,
       hold_up, key, raise, worker, until)
   ${byKey("chunk", "batch = n.batch AND step = n.step AND chunk >= n.first AND chunk < n.finish")}
   WHERE c.ctid = found.ctid`,
);
const PUT_ITEMS = statement(
  `INSERT INTO item (batch, step, item, key, attempts, deaths, started, dead, due_at,
     error_class, code, message, failed_at, checkpoint_name, checkpoint_data, drive)
   SELECT * FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::text[], $5::int[], $6::int[],
     $7::smallint[], $8::smallint[], $9::bigint[], $10::text[], $11::text[], $12::text[],
     $13::bigint[], $14::text[], $15::text[], $16::int[])
   ON CONFLICT (batch, step, item) DO UPDATE SET key = excluded.key,
     attempts = excluded.attempts, deaths = excluded.deaths, started = excluded.started,
     dead = excluded.dead, due_at = excluded.due_at, error_class = excluded.error_class,
     code = excluded.code, message = excluded.message, failed_at = excluded.failed_at,
     checkpoint_name = excluded.checkpoint_name, checkpoint_data = excluded.checkpoint_data,
     drive = excluded.drive`,
);
const DELETE_ITEMS = statement(
  `DELETE FROM item i USING unnest($1::bigint[], $2::int[], $3::bigint[]) AS n(batch, step, item)
   ${byKey("item", "batch = n.batch AND step = n.step AND item = n.item")}
   WHERE i.ctid = found.ctid`,
);
const UPDATE_STEPS = statement(
  // The earlier of two times, either of which may be NULL: `least` ignores NULL.
  `UPDATE step s SET succeeded = s.succeeded + n.succeeded, skipped = s.skipped + n.skipped,
     failed = s.failed + n.failed, pending = s.pending - n.succeeded - n.skipped - n.failed,
     failed_permanent = s.failed_permanent + n.permanent,
     failed_transient = s.failed_transient + n.transient,
     failed_unexpected = s.failed_unexpected + n.unexpected,
     leasable_at = least(s.leasable_at, n.due_at)
   FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
     $7::bigint[], $8::bigint[], $9::bigint[])
     AS n(batch, step, succeeded, skipped, failed, permanent, transient, unexpected, due_at)
   ${byKey("step", "batch = n.batch AND step = n.step")}
   WHERE s.ctid = found.ctid
   RETURNING s.batch, s.pending, s.running, s.canary_chunks,
     s.watched_failures = 1 AND n.failed > 0 AS spends`,
);

/** With the rows of its items. */
export interface HeldChunk extends Held {
  readonly tracked: readonly TrackedItem[];
}

type TrackedRow = ItemRow & {
  readonly batch_num: number;
  readonly step_num: number;
  readonly chunk_num: number;
};

export class Chunks {
  readonly #known: KnownBatches;

  constructor(known: KnownBatches) {
    this.#known = known;
  }

  /**
   * The chunks that these leases still hold, each at its position: the fence decides, not the
   * clock.
   */
  async readHeld(
    tx: Transaction,
    leases: readonly LeaseRef[],
  ): Promise<readonly (HeldChunk | undefined)[]> {
    const found = await findHeld(tx, leases);
    const places = [...found.keys()];
    const held = Array.from(leases, (): HeldChunk | undefined => undefined);
    for (const [at, chunk] of (await this.readItems(tx, [...found.values()])).entries()) {
      held[places[at] ?? -1] = chunk;
    }
    return held;
  }

  /** Most chunks have no such items: then it costs nothing. */
  async readItems(tx: Transaction, held: readonly Held[]): Promise<readonly HeldChunk[]> {
    const items = held.some(({ row }) => row.tracked === 1)
      ? await tx.all<TrackedRow>(
          SELECT_TRACKED,
          held.map(({ row }) => row.batch),
          held.map(({ row }) => row.step),
          held.map(({ row }) => row.chunk),
        )
      : [];
    const tracked = groupByChunk(items);
    return held.map((chunk) => ({ ...chunk, tracked: pickItems(tracked, chunk.row) }));
  }

  readStored({ row, tracked }: HeldChunk): StoredChunk {
    const { start, finish, outcomes, losses } = row;
    return { items: finish - start, outcomes, tracked, losses };
  }

  /** Collects the changes of one commit to chunks, to write them together. */
  begin(): ChunkWrites {
    return new ChunkWrites(this.#known);
  }

  /**
   * One update for all steps, however many of their chunks were reported; returns the batches that
   * must be checked. Most need no check: a success that is not the last item changes only counters.
   */
  async applyChanges(tx: Transaction, changes: StepChanges): Promise<number[]> {
    const all = [...changes.list()];
    if (all.length === 0) return [];
    type Row = {
      readonly batch: number;
      readonly pending: number;
      readonly running: number;
      readonly canary_chunks: number | null;
      readonly spends: boolean;
    };
    const rows = await tx.all<Row>(
      UPDATE_STEPS,
      all.map(({ batch }) => batch),
      all.map(({ step }) => step),
      all.map(({ succeeded }) => succeeded),
      all.map(({ skipped }) => skipped),
      all.map(({ failed }) => failed),
      all.map(({ permanent }) => permanent),
      all.map(({ transient }) => transient),
      all.map(({ unexpected }) => unexpected),
      all.map(({ dueAt }) => dueAt),
    );
    const due = rows.filter(
      ({ pending, running, canary_chunks: canary, spends }) =>
        pending === 0 || running === 0 || canary !== null || spends,
    );
    const batches = new Set(due.map(({ batch }) => batch));
    return [...new Set(all.map(({ batch }) => batch))].filter((batch) => batches.has(batch));
  }
}

function nameChunk(batch: number, step: number, chunk: number): string {
  return `${batch}/${step}/${chunk}`;
}

function groupByChunk(rows: readonly TrackedRow[]): Map<string, TrackedRow[]> {
  return Map.groupBy(rows, (row) => nameChunk(row.batch_num, row.step_num, row.chunk_num));
}

function pickItems(
  items: ReadonlyMap<string, readonly TrackedRow[]>,
  { batch, step, chunk, start }: HeldRow,
): TrackedItem[] {
  const rows = items.get(nameChunk(batch, step, chunk)) ?? [];
  return rows.map((row) => toTrackedItem(row, start));
}

interface ChunkWrite extends Place {
  readonly row: HeldRow;
  /** The run that it leaves. */
  readonly run: LeaseRun | null;
  readonly effect: ChunkEffect;
  /** The lease's charge from now on; null when the lease has ended. */
  readonly account: LeaseAccount | null;
}

const STATES = { settled: "settled", kept: "leased", yielded: "waiting" } as const;

export class ChunkWrites {
  readonly #known: KnownBatches;
  readonly #writes: ChunkWrite[] = [];

  constructor(known: KnownBatches) {
    this.#known = known;
  }

  /** `account`: the lease's charge from now on, if a report changes it. */
  apply(
    { row, run }: Held,
    effect: ChunkEffect,
    changes: StepChanges,
    account: LeaseAccount = { charge: row.charge, busyMs: row.busy_ms },
  ): void {
    const { batch, step, chunk } = row;
    const kept = effect.end === "kept" ? account : null;
    this.#writes.push({ batch, step, chunk, row, run, effect, account: kept });
    changes.add(row, effect);
  }

  async send(tx: Transaction): Promise<void> {
    const all = this.#writes;
    if (all.length === 0) return;
    const runs = findRuns(all, areAlike);
    const firsts = runs.map(([first]) => first);
    tx.send(
      UPDATE,
      firsts.map(({ row }) => row.batch),
      firsts.map(({ step }) => step),
      firsts.map(({ chunk }) => chunk),
      runs.map((run) => run[0].chunk + run.length),
      firsts.map(({ effect }) => STATES[effect.end]),
      firsts.map(({ effect }) => computeDue(effect)),
      firsts.map(({ effect }) => effect.outcomes),
      firsts.map(({ effect }) => (effect.track.length > 0 ? 1 : 0)),
      firsts.map(({ effect }) => effect.losses),
      firsts.map(({ account }) => account?.charge ?? null),
      firsts.map(({ account }) => account?.busyMs ?? null),
      firsts.map(({ effect }) => effect.limitWait?.waitReason ?? null),
      firsts.map(({ effect }) => effect.limitWait?.key ?? null),
      firsts.map(({ run }) => (run === null ? 0 : 1)),
      firsts.map(({ run }) => run?.worker ?? null),
      firsts.map(({ run }) => run?.until ?? null),
    );
    leaveRuns(
      tx,
      all.flatMap(({ run }) => run ?? []),
    );
    this.#sendItems(tx);
    const drafts = new MessageDrafts(this.#known);
    for (const { row, effect } of all) drafts.add(row, effect);
    await drafts.send(tx);
  }

  #sendItems(tx: Transaction): void {
    const gone = this.#writes.flatMap(({ row, effect }) =>
      effect.untrack.map((index) => ({ row, item: row.start + index })),
    );
    if (gone.length > 0) {
      tx.send(
        DELETE_ITEMS,
        gone.map(({ row }) => row.batch),
        gone.map(({ row }) => row.step),
        gone.map(({ item }) => item),
      );
    }
    const kept = this.#writes.flatMap(({ row, effect }) =>
      effect.track.map((item) => ({ row, item })),
    );
    if (kept.length > 0) putItems(tx, kept);
  }
}

function putItems(
  tx: Transaction,
  kept: readonly { readonly row: HeldRow; readonly item: TrackedItem }[],
): void {
  tx.send(
    PUT_ITEMS,
    kept.map(({ row }) => row.batch),
    kept.map(({ row }) => row.step),
    kept.map(({ row, item }) => row.start + item.index),
    kept.map(({ item }) => item.key),
    kept.map(({ item }) => item.attempts),
    kept.map(({ item }) => item.deaths),
    kept.map(({ item }) => (item.started ? 1 : 0)),
    kept.map(({ item }) => (item.dead ? 1 : 0)),
    kept.map(({ item }) => item.dueAt),
    kept.map(({ item }) => item.error?.errorClass ?? null),
    kept.map(({ item }) => item.error?.code ?? null),
    kept.map(({ item }) => item.error?.message ?? null),
    kept.map(({ item }) => (item.dead ? tx.wallMs : null)),
    kept.map(({ item }) => item.checkpoint?.name ?? null),
    kept.map(({ item }) => item.checkpoint?.data ?? null),
    kept.map(({ item }) => item.drive),
  );
}

/** When its chunk is due again; null when it does not wait. */
function computeDue({ end, dueAt }: ChunkEffect): number | null {
  return end === "yielded" ? dueAt : null;
}

/** Both rows would be written with the same values. */
function areAlike(one: ChunkWrite, other: ChunkWrite): boolean {
  const [a, b] = [one.effect, other.effect];
  return (
    a.end === b.end &&
    (one.run === null) === (other.run === null) &&
    one.account === null &&
    other.account === null &&
    computeDue(a) === computeDue(b) &&
    a.losses === b.losses &&
    a.track.length > 0 === b.track.length > 0 &&
    a.limitWait?.waitReason === b.limitWait?.waitReason &&
    a.limitWait?.key === b.limitWait?.key &&
    areEqual(a.outcomes, b.outcomes)
  );
}

function areEqual(one: Uint8Array, other: Uint8Array): boolean {
  if (one.length !== other.length) return false;
  for (let at = 0; at < one.length; at++) if (one[at] !== other[at]) return false;
  return true;
}
