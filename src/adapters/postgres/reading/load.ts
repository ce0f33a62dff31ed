/** How much work there is, in SQL: from the counters of steps, and chunks that are leased or wait. */
import { type Load, mergeLoads, type PipelineLoad } from "../../../core/fleet/load.ts";
import { countWorkers, type ServingRow } from "../../sql/serving-workers.ts";
import type { Host } from "../../sql/host.ts";
import { PAUSE_OF_BATCH } from "../connection/rows.ts";
import { statement } from "../connection/statement.ts";
import { FRESH_LIMIT } from "../connection/rows.ts";
import type { Transaction } from "../connection/transaction.ts";

type Part = Partial<PipelineLoad> & { readonly pipeline: string };

/** Where the items of a chunk begin, or where all items end. */
const start = (chunk: string): string => `coalesce((SELECT c.start FROM chunk c
  WHERE c.batch = s.batch AND c.step = s.step AND c.chunk = ${chunk}), s.planned)`;
/** For a running step: items after its canary, and items that never ran and may run. */
const FRESH_AT = start("s.next_chunk");
const LIMIT_AT = start(`greatest(s.next_chunk, ${FRESH_LIMIT})`);

const SELECT_OPEN = statement(
  `SELECT pipeline, count(DISTINCT num) AS batches, min(submitted_at) AS "oldestAt",
     sum(planned)::bigint AS planned, sum(planned - pending)::bigint AS done,
     sum(failed)::bigint AS dead,
     sum(CASE WHEN running = 1 THEN pending - (planned - limit_at) ELSE 0 END)::bigint AS pending,
     sum(CASE WHEN running = 1 THEN planned - limit_at ELSE pending END)::bigint AS held,
     sum(CASE WHEN running = 1 THEN limit_at - fresh_at ELSE 0 END)::bigint AS fresh
   FROM (SELECT b.pipeline, b.num, b.submitted_at, s.planned, s.pending, s.failed, s.running,
       CASE WHEN s.running = 1 THEN ${FRESH_AT} END AS fresh_at,
       CASE WHEN s.running = 1 THEN ${LIMIT_AT} END AS limit_at
     FROM batch b JOIN step s ON s.batch = b.num WHERE b.ended_at IS NULL) AS open
   GROUP BY pipeline`,
);
const SELECT_UNSLICED = statement(
  `SELECT b.pipeline, count(*) AS unsliced FROM batch b
   WHERE b.state IN ('submitted', 'slicing') AND b.active = 1
     AND b.cancel_mode IS NULL AND ${PAUSE_OF_BATCH} IS NULL GROUP BY b.pipeline`,
);
const SELECT_ENDED = statement(
  `SELECT b.pipeline, sum(s.planned)::bigint AS "plannedEnded",
     sum(s.planned - s.pending)::bigint AS "doneEnded"
   FROM batch b JOIN step s ON s.batch = b.num
   WHERE b.ended_at IS NOT NULL AND b.ended_at >= $1 GROUP BY b.pipeline`,
);
// Chunks of a run still say `planned`: see lease-runs.ts.
const SELECT_LEASED = statement(
  `SELECT b.pipeline, count(*) AS "leasedChunks", sum(h.items)::bigint AS "leasedItems",
     count(DISTINCT h.worker) AS "busyWorkers"
   FROM (
     SELECT batch, worker, finish - start AS items FROM chunk
     WHERE state = 'leased' AND worker > 0
     UNION ALL
     SELECT l.batch, l.worker, c.finish - c.start FROM lease l JOIN chunk c ON c.batch = l.batch
       AND c.step = l.step AND c.chunk >= l.first AND c.chunk < l.finish AND c.state = 'planned'
   ) AS h JOIN batch b ON b.num = h.batch GROUP BY b.pipeline`,
);
const SELECT_WAITING = statement(
  `SELECT s.pipeline, count(*) AS "waitingChunks",
     count(*) FILTER (WHERE c.due_at <= $1) AS "dueChunks"
   FROM step s JOIN chunk c ON c.due_at IS NOT NULL AND c.batch = s.batch AND c.step = s.step
   WHERE s.running = 1 GROUP BY s.pipeline`,
);
const SELECT_SERVING = statement(
  `SELECT DISTINCT s.pipeline, w.id, w.process FROM served s JOIN worker w ON w.id = s.worker
   WHERE w.until > $1`,
);

export class Loads {
  readonly #host: Host;

  constructor(host: Host) {
    this.#host = host;
  }

  async read(tx: Transaction, endedSince: number): Promise<Load> {
    await tx.begin();
    const now = Math.floor(tx.now);
    const [serving, ...parts] = await Promise.all([
      tx.all<ServingRow>(SELECT_SERVING, now),
      tx.all<Part>(SELECT_OPEN),
      tx.all<Part>(SELECT_UNSLICED),
      tx.all<Part>(SELECT_ENDED, endedSince),
      tx.all<Part>(SELECT_LEASED),
      tx.all<Part>(SELECT_WAITING, now),
    ]);
    const pipelines = mergeLoads([...parts.flat(), ...countWorkers(serving, this.#host)]);
    return { at: tx.wallMs, pipelines };
  }
}
