/** How much work there is, in SQL: from the counters of steps, and chunks that are leased or wait. */
import { type Load, mergeLoads, type PipelineLoad } from "../../../core/fleet/load.ts";
import { type Act, together } from "../dialect/act.ts";
import { statement } from "../dialect/statement.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";
import type { Host } from "../host.ts";
import { PAUSE_OF_BATCH } from "../rules/columns.ts";
import { FRESH_LIMIT } from "../rules/steps.ts";

type Part = Partial<PipelineLoad> & { readonly pipeline: string };

/** Where the items of a chunk begin, or where all items end. */
const start = (chunk: string): string => `coalesce((SELECT c.start FROM chunk c
  WHERE c.batch = s.batch AND c.step = s.step AND c.chunk = ${chunk}), s.planned)`;
/** For a running step: items after its canary, and items that never ran and may run. */
const FRESH_AT = start("s.next_chunk");
const LIMIT_AT = start(`/*sqlite max*//*postgres greatest*/(s.next_chunk, ${FRESH_LIMIT})`);
const sum = (items: string): string => `CAST(sum(${items}) AS bigint)`;

const SELECT_OPEN = statement(
  `SELECT pipeline, count(DISTINCT num) AS batches, min(submitted_at) AS "oldestAt",
     ${sum("planned")} AS planned, ${sum("planned - pending")} AS done, ${sum("failed")} AS dead,
     ${sum("CASE WHEN running = 1 THEN pending - (planned - limit_at) ELSE 0 END")} AS pending,
     ${sum("CASE WHEN running = 1 THEN planned - limit_at ELSE pending END")} AS held,
     ${sum("CASE WHEN running = 1 THEN limit_at - fresh_at ELSE 0 END")} AS fresh
   FROM (SELECT b.pipeline, b.num, b.submitted_at, s.planned, s.pending, s.failed, s.running,
       CASE WHEN s.running = 1 THEN ${FRESH_AT} END AS fresh_at,
       CASE WHEN s.running = 1 THEN ${LIMIT_AT} END AS limit_at
     FROM batch b /*sqlite INDEXED BY batch_unfinished*/ JOIN step s ON s.batch = b.num
     WHERE b.ended_at IS NULL) AS open
   GROUP BY pipeline`,
);
const SELECT_UNSLICED = statement(
  `SELECT b.pipeline, count(*) AS unsliced FROM batch b /*sqlite INDEXED BY batch_unsliced*/
   WHERE b.state IN ('submitted', 'slicing') AND b.active = 1
     AND b.cancel_mode IS NULL AND ${PAUSE_OF_BATCH} IS NULL GROUP BY b.pipeline`,
);
const SELECT_ENDED = statement(
  `SELECT b.pipeline, ${sum("s.planned")} AS "plannedEnded",
     ${sum("s.planned - s.pending")} AS "doneEnded"
   FROM batch b /*sqlite INDEXED BY batch_ended*/ JOIN step s ON s.batch = b.num
   WHERE b.ended_at IS NOT NULL AND b.ended_at >= $1 GROUP BY b.pipeline`,
);
// On a server, chunks of a run still say `planned`: see lease-runs.ts.
const SELECT_LEASED = statement(
  `SELECT b.pipeline, count(*) AS "leasedChunks", ${sum("h.finish - h.start")} AS "leasedItems",
     count(DISTINCT h.worker) AS "busyWorkers"
   FROM /*sqlite chunk h INDEXED BY chunk_lease*/
   /*postgres (
     SELECT batch, worker, start, finish FROM chunk WHERE state = 'leased' AND worker > 0
     UNION ALL
     SELECT l.batch, l.worker, c.start, c.finish FROM lease l JOIN chunk c ON c.batch = l.batch
       AND c.step = l.step AND c.chunk >= l.first AND c.chunk < l.finish AND c.state = 'planned'
   ) AS h*/
   JOIN batch b ON b.num = h.batch /*sqlite WHERE h.state = 'leased'*/ GROUP BY b.pipeline`,
);
const SELECT_WAITING = statement(
  `SELECT s.pipeline, count(*) AS "waitingChunks",
     count(*) FILTER (WHERE c.due_at <= $1) AS "dueChunks"
   FROM step s /*sqlite INDEXED BY step_watched*/ JOIN chunk c
     /*sqlite INDEXED BY chunk_due ON c.state = 'waiting'*//*postgres ON c.due_at IS NOT NULL*/
     AND c.batch = s.batch AND c.step = s.step
   WHERE s.running = 1 GROUP BY s.pipeline`,
);
const SELECT_SERVING = statement(
  `SELECT DISTINCT s.pipeline, w.id, w.process FROM served s JOIN worker w ON w.id = s.worker
   WHERE w.until > $1`,
);

/** A worker that has a pipeline, one row for each pipeline. */
interface ServingRow {
  readonly pipeline: string;
  readonly id: number;
  readonly process: string;
}

export function* readLoad(tx: RuleTransaction, host: Host, endedSince: number): Act<Load> {
  yield* tx.begin();
  const now = Math.floor(tx.now);
  const [serving, ...parts] = yield* together(
    tx.all<ServingRow>(SELECT_SERVING, now),
    tx.all<Part>(SELECT_OPEN),
    tx.all<Part>(SELECT_UNSLICED),
    tx.all<Part>(SELECT_ENDED, endedSince),
    tx.all<Part>(SELECT_LEASED),
    tx.all<Part>(SELECT_WAITING, now),
  );
  const pipelines = mergeLoads([...parts.flat(), ...countWorkers(serving, host)]);
  return { at: tx.wallMs, pipelines };
}

/** The living workers of each pipeline. */
function countWorkers(rows: readonly ServingRow[], host: Host): Part[] {
  const living = rows.filter(({ process }) => !host.isGone(process));
  return [...Map.groupBy(living, ({ pipeline }) => pipeline)].map(([pipeline, workers]) => ({
    pipeline,
    workers: workers.length,
  }));
}
