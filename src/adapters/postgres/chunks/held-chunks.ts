/**
 * Which leases still hold their chunks, in SQL: chunks in a run, and chunks that are leased
 * individually.
 */
import type { LeaseRef } from "../../../ports/store/worker-store.ts";
import type { HeldRow } from "../../sql/step-changes.ts";
import { type LeaseRun, readRuns } from "./lease-runs.ts";
import { type AlikeRow, composeAlike, findRuns, listPlaces } from "./runs.ts";
import { statement } from "../connection/statement.ts";
import type { Transaction } from "../connection/transaction.ts";

const HELD_COLUMNS =
  "batch, step, chunk, start, finish, tracked, losses, outcomes, charge, busy_ms";

export const prefix = (columns: string, table: string): string =>
  columns.replaceAll(/\w+/g, (column) => `${table}.${column}`);

/** The columns that neighbours share when they are read as one row. */
const HELD_ALIKE = "run, batch, step, state, worker, tracked, losses, outcomes, charge, busy_ms";
// By the primary key (OFFSET 0 keeps it so): an index of leased chunks is full of entries that are
// no longer leased, and would be scanned. Chunks in state `planned` may be in a run of leases.
const SELECT_HELD = statement(
  composeAlike(
    `SELECT l.nth AS run, ${prefix(HELD_COLUMNS, "c")}, c.state, c.worker,
       c.finish - c.start AS size
     FROM unnest($1::text[], $2::int[], $3::int[], $4::int[], $5::bigint[]) WITH ORDINALITY
       AS l(id, step, first, finish, fence, nth) JOIN batch b ON b.id = l.id
     JOIN LATERAL (SELECT * FROM chunk o WHERE o.batch = b.num AND o.step = l.step
       AND o.chunk >= l.first AND o.chunk < l.finish OFFSET 0) AS c
       ON c.state = 'leased' AND c.fence = l.fence OR c.state = 'planned' AND c.fence + 1 = l.fence
     WHERE b.id = ANY($1::text[])`,
    HELD_ALIKE,
  ),
);

/** A chunk that is leased. */
export interface Held {
  readonly row: HeldRow;
  /** The run that it is in; null for one that is leased individually. */
  readonly run: LeaseRun | null;
  /** The worker that holds it; 0 for none. */
  readonly worker: number;
}

/** Neighbours that one lease holds, with the same values. */
type HeldRunRow = AlikeRow &
  Omit<HeldRow, "chunk" | "start" | "finish"> & {
    readonly run: number;
    readonly state: "leased" | "planned";
    readonly worker: number;
  };

/**
 * The chunks that these leases still hold, by their position in the list: the fence decides, not
 * the clock.
 */
export async function findHeld(
  tx: Transaction,
  leases: readonly LeaseRef[],
): Promise<ReadonlyMap<number, Held>> {
  const asked = leases.map((lease, at) => ({
    batch: lease.batch,
    step: lease.step,
    chunk: lease.chunk,
    fence: lease.fence,
    at,
  }));
  const runs = findRuns(asked, (one, other) => one.fence === other.fence);
  const ranges = runs.map((run) => {
    const { batch, step, chunk: first } = run[0];
    return { batch, step, first, finish: first + run.length };
  });
  const [leaseRuns, found] = await Promise.all([
    readRuns(tx, ranges),
    tx.all<HeldRunRow>(
      SELECT_HELD,
      ranges.map(({ batch }) => batch),
      ranges.map(({ step }) => step),
      ranges.map(({ first }) => first),
      ranges.map(({ finish }) => finish),
      runs.map(([{ fence }]) => fence),
    ),
  ]);
  const held = new Map<number, Held>();
  for (const alike of found) {
    const ofRun = runs[alike.run - 1];
    const { batch, step, size, worker } = alike;
    for (const place of listPlaces(alike)) {
      const at = ofRun?.[place.chunk - ofRun[0].chunk]?.at ?? -1;
      if (alike.state === "leased") {
        held.set(at, { row: { ...alike, ...place }, run: null, worker });
        continue;
      }
      const run = leaseRuns.find(batch, step, place.chunk);
      // It was never leased.
      if (run === undefined) continue;
      const row = { ...alike, ...place, charge: size * run.item_cost };
      held.set(at, { row, run, worker: run.worker });
    }
  }
  return held;
}
