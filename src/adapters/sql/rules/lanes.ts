/**
 * The order of batches in each lane. The holder of a lane and the order of its waiting batches are
 * only changed, or read before a change, under the lane's lock.
 */
import {
  type Act as OperatorAct,
  type BatchRecord,
  describeAct,
  type EndReason,
} from "../../../core/batch/batch.ts";
import {
  DEFAULT_LANE_POLICY,
  decideStuckHolder,
  decideTurn,
  type LanePolicy,
} from "../../../core/batch/lane.ts";
import type { LaneMove } from "../../../ports/store/operator-store.ts";
import { type BatchRow, readPause } from "../rows.ts";
import { type Act, together } from "../dialect/act.ts";
import { PAUSE_OF_BATCH } from "./columns.ts";
import { decideNextState, type RecordLog } from "./records.ts";
import { type SharedStatement, statement } from "../dialect/statement.ts";
import type { Steps } from "./steps.ts";
import { LockTaken, type RuleTransaction } from "../dialect/transaction.ts";
import type { Serving } from "./serving.ts";

type WaitingRow = Pick<BatchRow, "num" | "id" | "pipeline" | "version" | "place" | "pause">;

interface Candidate {
  readonly num: number;
  readonly stuck: string | null;
}

const WAITING = "b.active = 0 AND b.ended_at IS NULL AND b.parked_code IS NULL";
/** What its turn makes of a batch that is planned. */
const ON_TURN = decideNextState("ready", "take_turn");
/** Waiting batches that are read at once, where more than the first one may matter. */
const PAGE = 100;

const FIND_POLICY = statement("SELECT policy FROM lane WHERE name = $1");
const PUT_POLICY = statement(
  `INSERT INTO lane (name, policy) VALUES ($1, $2)
   ON CONFLICT (name) DO UPDATE SET policy = excluded.policy`,
);
const FIND_HOLDER = statement(
  `SELECT (SELECT b.num FROM batch b WHERE b.lane = $1 AND b.active = 1) AS holder,
     (SELECT l.policy FROM lane l WHERE l.name = $1) AS policy`,
);
const SELECT_WAITING = statement(
  `SELECT b.num, b.id, b.pipeline, b.version, b.place, ${PAUSE_OF_BATCH} AS pause
   FROM batch b /*sqlite INDEXED BY batch_waits_in_lane*/
   WHERE b.lane = $1 AND ${WAITING} AND b.place > $2
   ORDER BY b.place LIMIT $3`,
);
// A lane can be free although batches wait in it only if its policy is `skip`.
const SELECT_IDLE = statement(
  `SELECT l.name FROM lane l WHERE l.policy = 'skip'
     AND NOT EXISTS (SELECT 1 FROM batch h WHERE h.lane = l.name AND h.active = 1)
     AND EXISTS (SELECT 1 FROM batch b WHERE b.lane = l.name AND ${WAITING})
   ORDER BY l.name`,
);
// A transaction that holds one of them may need this lane, so this one does not wait.
const LOCK_WAITING = statement(
  `SELECT b.num FROM batch b WHERE b.num = ANY($1::bigint[]) AND ${WAITING}
   FOR NO KEY UPDATE NOWAIT`,
);
const LOCK_UNFINISHED = statement(
  "SELECT num FROM batch WHERE lane = $1 AND ended_at IS NULL /*postgres FOR NO KEY UPDATE NOWAIT*/",
);
const HOLD = statement(
  // A batch that is planned runs. The first start also sets the deadline, if the batch has a maximum run time. Of two deadlines,
  // either of which may be NULL, the earlier one counts.
  `UPDATE batch SET active = 1, activity_at = $2,
     state = CASE WHEN state = 'ready' THEN $4 ELSE state END,
     started_at = coalesce(started_at, CAST($3 AS bigint)),
     deadline_at = CASE WHEN started_at IS NOT NULL THEN deadline_at
       WHEN deadline_at < CAST(CAST($3 AS bigint) + max_run_ms AS bigint) THEN deadline_at
       ELSE coalesce(CAST(CAST($3 AS bigint) + max_run_ms AS bigint), deadline_at) END
   WHERE num = $1 RETURNING step, drive, state`,
);
const RELEASE = statement("UPDATE batch SET active = 0 WHERE num = $1 AND active = 1");
const PARK = statement("UPDATE batch SET parked_code = $2, parked_message = $3 WHERE num = $1");
const DROP_PAUSE = statement("DELETE FROM pause WHERE scope = 'batch' AND name = $1");
const FIND_BACK = statement(
  "SELECT max(place) AS place FROM batch WHERE lane = $1 AND ended_at IS NULL",
);
const FIND_FRONT = statement(
  `SELECT min(place) AS place FROM batch
   WHERE lane = $1 AND ended_at IS NULL AND num <> $2`,
);
const FIND_PLACE = statement(
  `SELECT b.num, b.place FROM batch b WHERE b.id = $1 AND b.lane = $2 AND ${WAITING}`,
);
const FIND_PLACE_BEFORE = statement(
  // No other batch, parked or not, has a place in between.
  `SELECT max(place) AS place FROM batch
   WHERE lane = $1 AND ended_at IS NULL AND num <> $2 AND place < $3`,
);
const UPDATE_PLACE = statement("UPDATE batch SET place = $2 WHERE num = $1");
const SPREAD = statement(
  `UPDATE batch SET place = n.place
   FROM (SELECT num, row_number() OVER (ORDER BY place, num) AS place FROM batch
         WHERE lane = $1 AND ended_at IS NULL) AS n
   WHERE batch.num = n.num`,
);

export class Lanes {
  readonly #records: RecordLog;
  readonly #steps: Steps;
  readonly #serving: Serving;

  constructor(records: RecordLog, steps: Steps, serving: Serving) {
    this.#records = records;
    this.#steps = steps;
    this.#serving = serving;
  }

  *getPolicy(tx: RuleTransaction, lane: string): Act<LanePolicy> {
    const row = yield* tx.get<{ readonly policy: LanePolicy }>(FIND_POLICY, lane);
    return row?.policy ?? DEFAULT_LANE_POLICY;
  }

  *setPolicy(tx: RuleTransaction, lane: string, policy: LanePolicy): Act<void> {
    yield* tx.lock("lane", lane);
    tx.send(PUT_POLICY, lane, policy);
  }

  /** Gives a free lane to its next batch; null when it is taken or no batch can run. */
  *startNextInLane(tx: RuleTransaction, lane: string): Act<number | null> {
    type Row = { readonly holder: number | null; readonly policy: LanePolicy | null };
    const [, row] = yield* together(tx.lock("lane", lane), tx.get<Row>(FIND_HOLDER, lane));
    if (row === undefined || row.holder !== null) return null;
    const policy = row.policy ?? DEFAULT_LANE_POLICY;
    const [, candidates] = yield* together(
      tx.tryLockShared("pauses", ""),
      this.#listCandidates(tx, lane, policy),
    );
    const { start, park } = decideTurn(policy, candidates);
    yield* this.#lockWaiting(tx, start === null ? park : [...park, start]);
    for (const { num, stuck } of park) {
      yield* this.park(tx, num, { code: "STUCK", message: stuck as string });
    }
    if (start === null) return null;
    yield* this.#start(tx, start.num);
    return start.num;
  }

  /** Waiting batches in order, up to the first one that could run. */
  *#listCandidates(tx: RuleTransaction, lane: string, policy: LanePolicy): Act<Candidate[]> {
    const limit = policy === "block" ? 1 : PAGE;
    const candidates: Candidate[] = [];
    for (let place = Number.NEGATIVE_INFINITY; ; ) {
      const page = yield* tx.all<WaitingRow>(SELECT_WAITING, lane, place, limit);
      for (const waiting of page) {
        const stuck = yield* this.#describeStuck(tx, waiting, policy);
        candidates.push({ num: waiting.num, stuck });
        if (stuck === null || policy === "block") return candidates;
        ({ place } = waiting);
      }
      if (page.length < limit) return candidates;
    }
  }

  /**
   * A worker may be about to start, so a batch is not parked before its turn only because no worker
   * has its pipeline. But with the policy `skip` such a batch is passed over, or it would get the
   * lane again at once.
   */
  *#describeStuck(
    tx: RuleTransaction,
    waiting: WaitingRow,
    policy: LanePolicy,
  ): Act<string | null> {
    const held = readPause(waiting.pause);
    if (held !== null) return `its ${held.scope} is paused`;
    if (policy !== "skip" || (yield* this.#serving.has(tx, waiting))) return null;
    return "no worker has its pipeline";
  }

  /** If another transaction holds one, or it no longer waits, everything starts again. */
  *#lockWaiting(tx: RuleTransaction, batches: readonly Candidate[]): Act<void> {
    if (batches.length === 0 || !tx.isRemote) return;
    const nums = batches.map(({ num }) => num);
    const locked = yield* tx.all(LOCK_WAITING, nums);
    if (locked.length < nums.length) throw new LockTaken(`batches ${nums.join(", ")}`);
  }

  *#start(tx: RuleTransaction, num: number): Act<void> {
    const row = yield* tx.get(HOLD, num, Math.floor(tx.now), tx.wallMs, ON_TURN);
    const { step, drive, state } = row as Pick<BatchRow, "step" | "drive" | "state">;
    yield* this.#records.record(tx, num, { type: "batch.started", data: { step, drive } });
    if (state === ON_TURN) yield* this.#steps.adjustRunning(tx, num);
  }

  /** Releases the lane; the caller must start the next batch. */
  *release(tx: RuleTransaction, num: number, lane: string): Act<void> {
    const [, released] = yield* together(tx.lock("lane", lane), tx.run(RELEASE, num));
    if (released === 0) return;
    yield* this.#records.record(tx, num, describeReleased(lane));
  }

  /** For a batch that no longer holds its lane, because it ends: `active` is as it was. */
  describeRelease({ active, lane }: Pick<BatchRow, "active" | "lane">): BatchRecord[] {
    return active === 1 ? [describeReleased(lane)] : [];
  }

  /** Removes a batch from its lane's queue, until an operator resumes it. */
  *park(tx: RuleTransaction, num: number, { code, message }: EndReason): Act<void> {
    const batch = yield* this.#records.get(tx, num);
    yield* tx.lock("lane", batch.lane);
    tx.send(PARK, num, code, message);
    yield* this.#records.record(tx, num, { type: "batch.parked", data: { code, message } });
    yield* this.#stepAside(tx, batch);
  }

  *#stepAside(tx: RuleTransaction, { num, lane, state }: BatchRow): Act<void> {
    if (state === "running") this.#records.move(tx, { num, state }, "step_aside");
    yield* this.#steps.adjustRunning(tx, num);
    yield* this.release(tx, num, lane);
  }

  /** Whether another batch could run if the holder of the lane made way. Takes no lock. */
  *canMakeWay(tx: RuleTransaction, num: number, lane: string): Act<boolean> {
    const policy = yield* this.getPolicy(tx, lane);
    if (policy === "block" || (yield* this.#steps.hasLeases(tx, num))) return false;
    const candidates = yield* this.#listCandidates(tx, lane, policy);
    return candidates.some(({ stuck }) => stuck === null);
  }

  /** A stuck holder makes way for the batches behind it, by the lane's policy. */
  *tendHolder(tx: RuleTransaction, batch: BatchRow, stuck: string): Act<boolean> {
    yield* tx.lock("lane", batch.lane);
    if (!(yield* this.canMakeWay(tx, batch.num, batch.lane))) return false;
    const decision = decideStuckHolder(yield* this.getPolicy(tx, batch.lane));
    if (decision === "step_aside") yield* this.#stepAside(tx, batch);
    if (decision === "park") yield* this.park(tx, batch.num, { code: "STUCK", message: stuck });
    return decision !== "stay";
  }

  /** Lanes that are free although batches wait in them. */
  *listIdle(tx: RuleTransaction): Act<string[]> {
    return (yield* tx.all<{ readonly name: string }>(SELECT_IDLE)).map(({ name }) => name);
  }

  /** An ended batch is not paused: if it is reopened, it runs. */
  forgetPause(tx: RuleTransaction, id: string): void {
    tx.send(DROP_PAUSE, id);
  }

  /** False when the batch, or the one it should come before, is not waiting in the lane. */
  *move(
    tx: RuleTransaction,
    { num, id, lane }: BatchRow,
    move: LaneMove,
    act: OperatorAct,
  ): Act<boolean> {
    const [, waiting] = yield* together(tx.lock("lane", lane), tx.get(FIND_PLACE, id, lane));
    if (waiting === undefined) return false;
    const place = yield* this.#computePlace(tx, num, lane, move);
    if (place === null) return false;
    tx.send(UPDATE_PLACE, num, place);
    const data = "to" in move ? { to: move.to } : { before: move.before };
    yield* this.#records.record(tx, num, {
      type: "batch.moved",
      data: { ...data, ...describeAct(act) },
    });
    return true;
  }

  *#computePlace(
    tx: RuleTransaction,
    num: number,
    lane: string,
    move: LaneMove,
  ): Act<number | null> {
    if ("to" in move) {
      return yield* move.to === "front"
        ? this.computeFront(tx, num, lane)
        : this.computeBack(tx, lane);
    }
    const other = yield* tx.get<Pick<BatchRow, "num" | "place">>(FIND_PLACE, move.before, lane);
    if (other === undefined || other.num === num) return null;
    const before = yield* this.#findPlace(tx, FIND_PLACE_BEFORE, lane, num, other.place);
    if (before === null) return other.place - 1;
    const place = (before + other.place) / 2;
    if (place !== before && place !== other.place) return place;
    yield* this.#spread(tx, lane);
    return yield* this.#computePlace(tx, num, lane, move);
  }

  /** Numbers the places of a lane again: after many moves there is no number between two. */
  *#spread(tx: RuleTransaction, lane: string): Act<void> {
    yield* together(tx.run(LOCK_UNFINISHED, lane), tx.run(SPREAD, lane));
  }

  /** A place before every unfinished batch of the lane; the caller has its lock. */
  *computeFront(tx: RuleTransaction, num: number, lane: string): Act<number> {
    const place = yield* this.#findPlace(tx, FIND_FRONT, lane, num);
    return place === null ? (yield* this.#records.get(tx, num)).place : place - 1;
  }

  /** A place after every unfinished batch of the lane; the caller has its lock. */
  *computeBack(tx: RuleTransaction, lane: string): Act<number> {
    const place = yield* this.#findPlace(tx, FIND_BACK, lane);
    return place === null ? 1 : place + 1;
  }

  *#findPlace(
    tx: RuleTransaction,
    find: SharedStatement,
    ...values: readonly (string | number)[]
  ): Act<number | null> {
    return ((yield* tx.get(find, ...values)) as { readonly place: number | null }).place;
  }
}

function describeReleased(lane: string): BatchRecord {
  return { type: "batch.released", data: { lane } };
}
