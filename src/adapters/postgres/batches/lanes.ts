/**
 * The order of batches in each lane, in SQL. Every method runs inside the caller's transaction. The
 * holder of a lane and the order of its waiting batches are only changed, or read before a change,
 * under the lane's lock.
 */
import { type Act, describeAct, type EndReason } from "../../../core/batch/batch.ts";
import {
  DEFAULT_LANE_POLICY,
  decideStuckHolder,
  decideTurn,
  type LanePolicy,
} from "../../../core/batch/lane.ts";
import type { LaneMove } from "../../../ports/store/operator-store.ts";
import { type BatchRow, readPause } from "../../sql/rows.ts";
import type { RecordLog } from "../ledger/records.ts";
import { PAUSE_OF_BATCH } from "../connection/rows.ts";
import { statement } from "../connection/statement.ts";
import type { Steps } from "./steps.ts";
import { LockTaken, type Transaction } from "../connection/transaction.ts";
import type { Workers } from "../fleet/workers.ts";

type WaitingRow = Pick<BatchRow, "num" | "id" | "pipeline" | "version" | "place" | "pause">;

interface Candidate {
  readonly num: number;
  readonly stuck: string | null;
}

const WAITING = "b.active = 0 AND b.ended_at IS NULL AND b.parked_code IS NULL";
/** Waiting batches that are read at once, where more than the first one may matter. */
const PAGE = 100;

const FIND_POLICY = statement("SELECT policy FROM lane WHERE name = $1");
const PUT_POLICY = statement(
  `INSERT INTO lane (name, policy) VALUES ($1, $2)
   ON CONFLICT (name) DO UPDATE SET policy = excluded.policy`,
);
const FIND_HOLDER = statement("SELECT num FROM batch b WHERE b.lane = $1 AND b.active = 1");
const SELECT_WAITING = statement(
  `SELECT b.num, b.id, b.pipeline, b.version, b.place, ${PAUSE_OF_BATCH} AS pause
   FROM batch b WHERE b.lane = $1 AND ${WAITING} AND b.place > $2
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
  "SELECT num FROM batch WHERE lane = $1 AND ended_at IS NULL FOR NO KEY UPDATE NOWAIT",
);
const HOLD = statement(
  // The first start also sets the deadline, if the batch has a maximum run time. Of two deadlines,
  // either of which may be NULL, the earlier one counts.
  `UPDATE batch SET active = 1, activity_at = $2, started_at = coalesce(started_at, $3::bigint),
     deadline_at = CASE WHEN started_at IS NOT NULL THEN deadline_at
       ELSE least(deadline_at, $3::bigint + max_run_ms) END
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
  readonly #workers: Workers;

  constructor(records: RecordLog, steps: Steps, workers: Workers) {
    this.#records = records;
    this.#steps = steps;
    this.#workers = workers;
  }

  async getPolicy(tx: Transaction, lane: string): Promise<LanePolicy> {
    const row = await tx.get<{ readonly policy: LanePolicy }>(FIND_POLICY, lane);
    return row?.policy ?? DEFAULT_LANE_POLICY;
  }

  async setPolicy(tx: Transaction, lane: string, policy: LanePolicy): Promise<void> {
    await tx.lock("lane", lane);
    tx.send(PUT_POLICY, lane, policy);
  }

  /** Gives a free lane to its next batch; null when it is taken or no batch can run. */
  async startNextInLane(tx: Transaction, lane: string): Promise<number | null> {
    const [, holder, policy] = await Promise.all([
      tx.lock("lane", lane),
      tx.get(FIND_HOLDER, lane),
      this.getPolicy(tx, lane),
    ]);
    if (holder !== undefined) return null;
    const [, candidates] = await Promise.all([
      tx.tryLockShared("pauses", ""),
      this.#listCandidates(tx, lane, policy),
    ]);
    const { start, park } = decideTurn(policy, candidates);
    await this.#lockWaiting(tx, start === null ? park : [...park, start]);
    for (const { num, stuck } of park) {
      await this.park(tx, num, { code: "STUCK", message: stuck as string });
    }
    if (start === null) return null;
    await this.#start(tx, start.num);
    return start.num;
  }

  /** Waiting batches in order, up to the first one that could run. */
  async #listCandidates(tx: Transaction, lane: string, policy: LanePolicy): Promise<Candidate[]> {
    const limit = policy === "block" ? 1 : PAGE;
    const candidates: Candidate[] = [];
    for (let place = Number.NEGATIVE_INFINITY; ; ) {
      const page = await tx.all<WaitingRow>(SELECT_WAITING, lane, place, limit);
      for (const waiting of page) {
        const stuck = await this.#describeStuck(tx, waiting, policy);
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
  async #describeStuck(
    tx: Transaction,
    waiting: WaitingRow,
    policy: LanePolicy,
  ): Promise<string | null> {
    const held = readPause(waiting.pause);
    if (held !== null) return `its ${held.scope} is paused`;
    if (policy !== "skip" || (await this.#workers.has(tx, waiting))) return null;
    return "no worker has its pipeline";
  }

  /** If another transaction holds one, or it no longer waits, everything starts again. */
  async #lockWaiting(tx: Transaction, batches: readonly Candidate[]): Promise<void> {
    if (batches.length === 0) return;
    const nums = batches.map(({ num }) => num);
    const locked = await tx.all(LOCK_WAITING, nums);
    if (locked.length < nums.length) throw new LockTaken(`batches ${nums.join(", ")}`);
  }

  async #start(tx: Transaction, num: number): Promise<void> {
    const row = await tx.get(HOLD, num, Math.floor(tx.now), tx.wallMs);
    const { step, drive, state } = row as Pick<BatchRow, "step" | "drive" | "state">;
    await this.#records.record(tx, num, { type: "batch.started", data: { step, drive } });
    if (state !== "ready") return;
    await this.#records.move(tx, num, "take_turn");
    await this.#steps.adjustRunning(tx, num);
  }

  /** Releases the lane; the caller must start the next batch. */
  async release(tx: Transaction, num: number, lane: string): Promise<void> {
    const [, released] = await Promise.all([tx.lock("lane", lane), tx.run(RELEASE, num)]);
    if (released === 0) return;
    await this.#records.record(tx, num, { type: "batch.released", data: { lane } });
  }

  /** Removes a batch from its lane's queue, until an operator resumes it. */
  async park(tx: Transaction, num: number, { code, message }: EndReason): Promise<void> {
    const batch = await this.#records.get(tx, num);
    await tx.lock("lane", batch.lane);
    tx.send(PARK, num, code, message);
    await this.#records.record(tx, num, { type: "batch.parked", data: { code, message } });
    await this.#stepAside(tx, batch);
  }

  async #stepAside(tx: Transaction, { num, lane, state }: BatchRow): Promise<void> {
    if (state === "running") await this.#records.move(tx, num, "step_aside");
    await this.#steps.adjustRunning(tx, num);
    await this.release(tx, num, lane);
  }

  /** Whether another batch could run if the holder of the lane made way. Takes no lock. */
  async canMakeWay(tx: Transaction, num: number, lane: string): Promise<boolean> {
    const policy = await this.getPolicy(tx, lane);
    if (policy === "block" || (await this.#steps.hasLeases(tx, num))) return false;
    const candidates = await this.#listCandidates(tx, lane, policy);
    return candidates.some(({ stuck }) => stuck === null);
  }

  /** A stuck holder makes way for the batches behind it, by the lane's policy. */
  async tendHolder(tx: Transaction, batch: BatchRow, stuck: string): Promise<boolean> {
    await tx.lock("lane", batch.lane);
    if (!(await this.canMakeWay(tx, batch.num, batch.lane))) return false;
    const decision = decideStuckHolder(await this.getPolicy(tx, batch.lane));
    if (decision === "step_aside") await this.#stepAside(tx, batch);
    if (decision === "park") await this.park(tx, batch.num, { code: "STUCK", message: stuck });
    return decision !== "stay";
  }

  /** Lanes that are free although batches wait in them. */
  async listIdle(tx: Transaction): Promise<string[]> {
    return (await tx.all<{ readonly name: string }>(SELECT_IDLE)).map(({ name }) => name);
  }

  /** An ended batch is not paused: if it is reopened, it runs. */
  async forgetPause(tx: Transaction, id: string): Promise<void> {
    tx.send(DROP_PAUSE, id);
  }

  /** False when the batch, or the one it should come before, is not waiting in the lane. */
  async move(
    tx: Transaction,
    { num, id, lane }: BatchRow,
    move: LaneMove,
    act: Act,
  ): Promise<boolean> {
    const [, waiting] = await Promise.all([tx.lock("lane", lane), tx.get(FIND_PLACE, id, lane)]);
    if (waiting === undefined) return false;
    const place = await this.#computePlace(tx, num, lane, move);
    if (place === null) return false;
    tx.send(UPDATE_PLACE, num, place);
    const data = "to" in move ? { to: move.to } : { before: move.before };
    await this.#records.record(tx, num, {
      type: "batch.moved",
      data: { ...data, ...describeAct(act) },
    });
    return true;
  }

  async #computePlace(
    tx: Transaction,
    num: number,
    lane: string,
    move: LaneMove,
  ): Promise<number | null> {
    if ("to" in move) {
      return move.to === "front" ? this.computeFront(tx, num, lane) : this.computeBack(tx, lane);
    }
    const other = await tx.get<Pick<BatchRow, "num" | "place">>(FIND_PLACE, move.before, lane);
    if (other === undefined || other.num === num) return null;
    const before = await this.#findPlace(tx, FIND_PLACE_BEFORE, lane, num, other.place);
    if (before === null) return other.place - 1;
    const place = (before + other.place) / 2;
    if (place !== before && place !== other.place) return place;
    await this.#spread(tx, lane);
    return this.#computePlace(tx, num, lane, move);
  }

  /** Numbers the places of a lane again: after many moves there is no number between two. */
  async #spread(tx: Transaction, lane: string): Promise<void> {
    await Promise.all([tx.run(LOCK_UNFINISHED, lane), tx.run(SPREAD, lane)]);
  }

  /** A place before every unfinished batch of the lane; the caller has its lock. */
  async computeFront(tx: Transaction, num: number, lane: string): Promise<number> {
    const place = await this.#findPlace(tx, FIND_FRONT, lane, num);
    return place === null ? (await this.#records.get(tx, num)).place : place - 1;
  }

  /** A place after every unfinished batch of the lane; the caller has its lock. */
  async computeBack(tx: Transaction, lane: string): Promise<number> {
    const place = await this.#findPlace(tx, FIND_BACK, lane);
    return place === null ? 1 : place + 1;
  }

  async #findPlace(
    tx: Transaction,
    find: typeof FIND_BACK,
    ...values: readonly (string | number)[]
  ): Promise<number | null> {
    return ((await tx.get(find, ...values)) as { readonly place: number | null }).place;
  }
}
