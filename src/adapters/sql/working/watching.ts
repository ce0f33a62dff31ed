/** Looks at running steps from time to time: work that does not move is offered again, or given up. */
import { FIRST_LOOK } from "../../../core/batch/watch.ts";
import { failPending, STALLED } from "../../../core/items/loss.ts";
import type { SweepPolicy } from "../../../ports/store/worker-store.ts";
import { type Act, together } from "../dialect/act.ts";
import { statement } from "../dialect/statement.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";
import { findFullCap } from "../rules/cap-use.ts";
import { FRESH_LIMIT, WAITING_CHUNKS } from "../rules/steps.ts";
import type { LaneTendingParts } from "./lane-tending.ts";
import {
  changeLeft,
  CHUNKS_MAX,
  LEFT_COLUMNS,
  type LeftRow,
  type OpenLeft,
} from "./left-chunks.ts";
import {
  advanceBatches,
  BATCHES_MAX,
  type Done,
  doEach,
  NOTHING,
  type SweepGround,
} from "./sweep-ground.ts";
import { judgeLook, type WatchedRow } from "./sweep-rules.ts";

/** More than any policy allows. */
const STALLS_MAX = 2_147_483_647;

const WATCHED = "WHERE running = 1 AND watch_due_at <= $1";
const SELECT_WATCHED = statement(
  `SELECT batch, step FROM step /*sqlite INDEXED BY step_watched*/ ${WATCHED}
   ORDER BY watch_due_at, batch, step LIMIT $2`,
);
const FIND_WATCHED = statement(
  // Due work is read from the chunks, not from the hint that leases use: the watch exists to find a
  // lost hint.
  `SELECT batch, step, (SELECT b.id FROM batch b WHERE b.num = step.batch) AS id, pipeline,
     version, pending, watch_previous, watch_stalls,
     CAST(next_chunk < ${FRESH_LIMIT} OR EXISTS (
       SELECT 1 FROM ${WAITING_CHUNKS} AND c.batch = step.batch AND c.step = step.step
         AND c.due_at <= $1) AS int) AS has_due
   FROM step ${WATCHED} AND batch = $2 AND step = $3`,
);
const FIND_BUSY = statement(
  `SELECT 1 FROM /*sqlite chunk l INDEXED BY chunk_lease*/
   /*postgres (
     SELECT batch FROM lease WHERE worker > 0 AND until > $2
     UNION ALL SELECT batch FROM chunk WHERE state = 'leased' AND worker > 0 AND lease_until > $2
   ) AS l*/
   JOIN batch b ON b.num = l.batch WHERE b.pipeline = $1
     /*sqlite AND l.state = 'leased' AND l.lease_until > $2*/ LIMIT 1`,
);
const UPDATE_WATCH = statement(
  `UPDATE step SET watch_previous = $1, watch_stalls = $2, watch_due_at = $3
   WHERE batch = $4 AND step = $5`,
);
const TOUCH = statement("UPDATE batch SET activity_at = $1 WHERE num = $2");
const SELECT_LEFTOVERS = statement(
  `SELECT ${LEFT_COLUMNS} FROM chunk WHERE batch = $1 AND step = $2
     AND state IN ('planned', 'waiting') ORDER BY chunk LIMIT $3`,
);
const PASS_FRESH = statement(
  `UPDATE step SET next_chunk = /*sqlite max*//*postgres greatest*/(next_chunk, $1)
   WHERE batch = $2 AND step = $3`,
);
const RAISE_FENCE = statement(
  `UPDATE chunk SET fence = fence + 1
   WHERE batch = $1 AND step = $2 AND chunk /*sqlite = $3*//*postgres = ANY($3::int[])*/`,
);

export interface WatchingParts extends LaneTendingParts {
  readonly openLeft: OpenLeft;
  /** Writes out what is known of leased chunks only as a range. */
  readonly writeOutLeases: (tx: RuleTransaction, num: number) => void;
}

type Place = Pick<WatchedRow, "batch" | "step">;

export class Watching {
  readonly #parts: WatchingParts;

  constructor(parts: WatchingParts) {
    this.#parts = parts;
  }

  /** Steps that are due for a look. */
  *listDue(tx: RuleTransaction, limit: number): Act<Place[]> {
    yield* tx.begin();
    return yield* tx.all<Place>(SELECT_WATCHED, Math.floor(tx.now), limit);
  }

  *watchAll(ground: SweepGround, policy: SweepPolicy): Act<Done> {
    const rows = yield* ground.read((tx) => this.listDue(tx, BATCHES_MAX));
    const watch = (tx: RuleTransaction, row: WatchedRow): Act<Done> => this.#watch(tx, row, policy);
    return yield* doEach(ground, rows, function* watchOne(tx, { batch, step }) {
      if (!(yield* tx.lockBatch(batch))) return NOTHING;
      const row = yield* tx.get<WatchedRow>(FIND_WATCHED, Math.floor(tx.now), batch, step);
      return row === undefined ? NOTHING : yield* watch(tx, row);
    });
  }

  /** Checks whether a running batch makes progress; counts it when it had to act. */
  *#watch(tx: RuleTransaction, row: WatchedRow, policy: SweepPolicy): Act<Done> {
    const { steps, serving } = this.#parts;
    const { batch, step } = row;
    const now = Math.floor(tx.now);
    const [hasLiveLease, hasWorker, busy, full] = yield* together(
      steps.hasLeases(tx, batch),
      serving.has(tx, row),
      tx.get(FIND_BUSY, row.pipeline, now),
      findFullCap(tx, batch),
    );
    const facts = {
      hasDueWork: row.has_due === 1,
      hasLiveLease,
      isPaused: false,
      hasWorker,
      areWorkersBusy: busy !== undefined,
      isAtLimit: full !== null,
    };
    const { isActive, isStall, isOver, next, nextInMs } = judgeLook(row, facts, policy);
    const nextAt = Math.ceil(now + nextInMs);
    if (isActive) tx.send(TOUCH, now, batch);
    tx.send(UPDATE_WATCH, next.previous, next.stalls, nextAt, batch, step);
    if (!isStall) return NOTHING;
    if (isOver) return { count: 1, ended: yield* this.#giveUp(tx, batch, step, nextAt) };
    steps.offerAgain(tx, batch, step);
    return { count: 1, ended: [] };
  }

  /** Fails the leftovers, so that the step continues with what it has. */
  *#giveUp(tx: RuleTransaction, num: number, step: number, nextAt: number): Act<string[]> {
    const { steps, lifecycle, openLeft, writeOutLeases } = this.#parts;
    // Leased chunks are not leftovers.
    writeOutLeases(tx, num);
    const rows = yield* tx.all<LeftRow>(SELECT_LEFTOVERS, num, step, CHUNKS_MAX);
    const numbers = rows.map(({ chunk }) => chunk);
    tx.sendEach(RAISE_FENCE, [num, step], numbers);
    const due = yield* changeLeft(tx, openLeft, rows, "stalled", (stored) =>
      failPending(stored, STALLED),
    );
    tx.send(PASS_FRESH, (numbers.at(-1) ?? -1) + 1, num, step);
    steps.offerAgain(tx, num, step);
    // What one bounded transaction leaves over is given up by the next.
    const whole = rows.length < CHUNKS_MAX;
    const { previous, stalls } = whole ? FIRST_LOOK : { previous: 0, stalls: STALLS_MAX };
    const at = whole ? nextAt : Math.floor(tx.now);
    tx.send(UPDATE_WATCH, previous, stalls, at, num, step);
    return yield* advanceBatches(tx, lifecycle, due);
  }
}
