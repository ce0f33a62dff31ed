/** How much work there is, in SQL: from the counters of steps, and chunks that are leased or wait. */
import type { StatementSync } from "node:sqlite";
import { type Load, mergeLoads, type PipelineLoad } from "../../../core/fleet/load.ts";
import type { Clock } from "../../../ports/clock.ts";
import { countWorkers, type ServingRow } from "../../sql/serving-workers.ts";
import type { Host } from "../../sql/host.ts";
import type { Connection } from "../connection/connection.ts";
import { PAUSE_OF_BATCH } from "../connection/rows.ts";
import { FRESH_LIMIT } from "../connection/rows.ts";

type Part = Partial<PipelineLoad> & { readonly pipeline: string };

/** Where the items of a chunk begin, or where all items end. */
const start = (chunk: string): string => `coalesce((SELECT c.start FROM chunk c
  WHERE c.batch = s.batch AND c.step = s.step AND c.chunk = ${chunk}), s.planned)`;
/** Items of a running step after its canary. */
const BEHIND = `iif(s.running = 1, s.planned - ${start(`max(s.next_chunk, ${FRESH_LIMIT})`)}, 0)`;

export class Loads {
  readonly #clock: Clock;
  readonly #host: Host;
  readonly #selectOpen: StatementSync;
  readonly #selectUnsliced: StatementSync;
  readonly #selectEnded: StatementSync;
  readonly #selectLeased: StatementSync;
  readonly #selectWaiting: StatementSync;
  readonly #selectServing: StatementSync;

  constructor(connection: Connection, clock: Clock, host: Host) {
    this.#clock = clock;
    this.#host = host;
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    this.#selectOpen = prepare(
      `SELECT b.pipeline, count(DISTINCT b.num) AS batches, min(b.submitted_at) AS oldestAt,
         sum(s.planned) AS planned, sum(s.planned - s.pending) AS done, sum(s.failed) AS dead,
         sum(iif(s.running = 1, s.pending - ${BEHIND}, 0)) AS pending,
         sum(iif(s.running = 1, ${BEHIND}, s.pending)) AS held,
         sum(iif(s.running = 1, s.planned - ${BEHIND} - ${start("s.next_chunk")}, 0)) AS fresh
       FROM batch b INDEXED BY batch_unfinished JOIN step s ON s.batch = b.num
       WHERE b.ended_at IS NULL GROUP BY b.pipeline`,
    );
    this.#selectUnsliced = prepare(
      `SELECT b.pipeline, count(*) AS unsliced FROM batch b INDEXED BY batch_unsliced
       WHERE b.state IN ('submitted', 'slicing') AND b.active = 1
         AND b.cancel_mode IS NULL AND ${PAUSE_OF_BATCH} IS NULL GROUP BY b.pipeline`,
    );
    this.#selectEnded = prepare(
      `SELECT b.pipeline, sum(s.planned) AS plannedEnded, sum(s.planned - s.pending) AS doneEnded
       FROM batch b INDEXED BY batch_ended JOIN step s ON s.batch = b.num
       WHERE b.ended_at IS NOT NULL AND b.ended_at >= ? GROUP BY b.pipeline`,
    );
    this.#selectLeased = prepare(
      `SELECT b.pipeline, count(*) AS leasedChunks, sum(c.finish - c.start) AS leasedItems,
         count(DISTINCT c.worker) AS busyWorkers
       FROM chunk c INDEXED BY chunk_lease JOIN batch b ON b.num = c.batch
       WHERE c.state = 'leased' GROUP BY b.pipeline`,
    );
    this.#selectWaiting = prepare(
      `SELECT s.pipeline, count(*) AS waitingChunks, sum(c.due_at <= ?) AS dueChunks
       FROM step s INDEXED BY step_watched JOIN chunk c INDEXED BY chunk_due
         ON c.state = 'waiting' AND c.batch = s.batch AND c.step = s.step
       WHERE s.running = 1 GROUP BY s.pipeline`,
    );
    this.#selectServing = prepare(
      `SELECT DISTINCT s.pipeline, w.id, w.process FROM served s JOIN worker w ON w.id = s.worker
       WHERE w.until > ?`,
    );
  }

  read(endedSince: number): Load {
    const now = Math.floor(this.#clock.monotonicMs());
    const parts = [
      this.#selectOpen.all(),
      this.#selectUnsliced.all(),
      this.#selectEnded.all(endedSince),
      this.#selectLeased.all(),
      this.#selectWaiting.all(now),
    ] as unknown as Part[][];
    const serving = this.#selectServing.all(now) as unknown as ServingRow[];
    const pipelines = mergeLoads([...parts.flat(), ...countWorkers(serving, this.#host)]);
    return { at: this.#clock.wallMs(), pipelines };
  }
}
