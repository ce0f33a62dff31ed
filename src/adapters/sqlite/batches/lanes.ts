/** The order of batches in each lane, in SQL. Every method runs inside the caller's transaction. */
import type { StatementSync } from "node:sqlite";
import { type Act, describeAct, type EndReason } from "../../../core/batch/batch.ts";
import {
  DEFAULT_LANE_POLICY,
  decideStuckHolder,
  decideTurn,
  type LanePolicy,
} from "../../../core/batch/lane.ts";
import type { Clock } from "../../../ports/clock.ts";
import type { LaneMove } from "../../../ports/store/operator-store.ts";
import type { Connection } from "../connection/connection.ts";
import type { RecordLog } from "../ledger/records.ts";
import { type BatchRow, readPause } from "../../sql/rows.ts";
import { PAUSE_OF_BATCH } from "../connection/rows.ts";
import type { Steps } from "./steps.ts";
import type { Workers } from "../fleet/workers.ts";

type WaitingRow = Pick<BatchRow, "num" | "id" | "pipeline" | "version" | "pause">;

const WAITING = "b.active = 0 AND b.ended_at IS NULL AND b.parked_code IS NULL";

export class Lanes {
  readonly #clock: Clock;
  readonly #records: RecordLog;
  readonly #steps: Steps;
  readonly #workers: Workers;
  readonly #selectPolicy: StatementSync;
  readonly #putPolicy: StatementSync;
  readonly #selectHolder: StatementSync;
  readonly #selectWaiting: StatementSync;
  readonly #selectIdle: StatementSync;
  readonly #hold: StatementSync;
  readonly #release: StatementSync;
  readonly #park: StatementSync;
  readonly #dropPause: StatementSync;
  readonly #selectBack: StatementSync;
  readonly #selectFront: StatementSync;
  readonly #selectPlace: StatementSync;
  readonly #selectPlaceBefore: StatementSync;
  readonly #updatePlace: StatementSync;
  readonly #selectUnfinished: StatementSync;

  constructor(
    connection: Connection,
    clock: Clock,
    records: RecordLog,
    steps: Steps,
    workers: Workers,
  ) {
    this.#clock = clock;
    this.#records = records;
    this.#steps = steps;
    this.#workers = workers;
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    this.#selectPolicy = prepare("SELECT policy FROM lane WHERE name = ?");
    this.#putPolicy = prepare(
      `INSERT INTO lane (name, policy) VALUES (?, ?)
       ON CONFLICT (name) DO UPDATE SET policy = excluded.policy`,
    );
    this.#selectHolder = prepare("SELECT num FROM batch b WHERE b.lane = ? AND b.active = 1");
    this.#selectWaiting = prepare(
      `SELECT b.num, b.id, b.pipeline, b.version, ${PAUSE_OF_BATCH} AS pause
       FROM batch b INDEXED BY batch_waits_in_lane WHERE b.lane = ? AND ${WAITING}
       ORDER BY b.place`,
    );
    // A lane can be free although batches wait in it only if its policy is `skip`.
    this.#selectIdle = prepare(
      `SELECT l.name FROM lane l WHERE l.policy = 'skip'
         AND NOT EXISTS (SELECT 1 FROM batch h WHERE h.lane = l.name AND h.active = 1)
         AND EXISTS (SELECT 1 FROM batch b WHERE b.lane = l.name AND ${WAITING})
       ORDER BY l.name`,
    );
    this.#hold = prepare(
      // The first start also sets the deadline, if the batch has a maximum run time. Of two
      // deadlines, either of which may be NULL, the earlier one counts.
      `UPDATE batch SET active = 1, activity_at = ?, started_at = coalesce(started_at, ?),
         deadline_at = iif(started_at IS NOT NULL, deadline_at,
           coalesce(min(deadline_at, ? + (settings ->> '$.maxRunMs')),
             ? + (settings ->> '$.maxRunMs'), deadline_at))
       WHERE num = ? RETURNING step, drive, state`,
    );
    this.#release = prepare("UPDATE batch SET active = 0 WHERE num = ? AND active = 1");
    this.#park = prepare("UPDATE batch SET parked_code = ?, parked_message = ? WHERE num = ?");
    this.#dropPause = prepare("DELETE FROM pause WHERE scope = 'batch' AND name = ?");
    this.#selectBack = prepare(
      "SELECT max(place) AS place FROM batch WHERE lane = ? AND ended_at IS NULL",
    );
    this.#selectFront = prepare(
      `SELECT min(place) AS place FROM batch
       WHERE lane = ? AND ended_at IS NULL AND num <> ?`,
    );
    this.#selectPlace = prepare(
      `SELECT b.num, b.place FROM batch b WHERE b.id = ? AND b.lane = ? AND ${WAITING}`,
    );
    this.#selectPlaceBefore = prepare(
      // No other batch, parked or not, has a place in between.
      `SELECT max(place) AS place FROM batch
       WHERE lane = ? AND ended_at IS NULL AND num <> ? AND place < ?`,
    );
    this.#updatePlace = prepare("UPDATE batch SET place = ? WHERE num = ?");
    this.#selectUnfinished = prepare(
      "SELECT num FROM batch WHERE lane = ? AND ended_at IS NULL ORDER BY place, num",
    );
  }

  getPolicy(lane: string): LanePolicy {
    const row = this.#selectPolicy.get(lane) as { policy: LanePolicy } | undefined;
    return row?.policy ?? DEFAULT_LANE_POLICY;
  }

  setPolicy(lane: string, policy: LanePolicy): void {
    this.#putPolicy.run(lane, policy);
  }

  /** Gives a free lane to its next batch; null when it is taken or no batch can run. */
  startNextInLane(lane: string): number | null {
    if (this.#selectHolder.get(lane) !== undefined) return null;
    const policy = this.getPolicy(lane);
    const { start, park } = decideTurn(policy, this.#listCandidates(lane, policy));
    for (const { num, stuck } of park) this.park(num, { code: "STUCK", message: stuck as string });
    if (start === null) return null;
    this.#start(start.num);
    return start.num;
  }

  *#listCandidates(
    lane: string,
    policy: LanePolicy,
  ): Generator<{ readonly num: number; readonly stuck: string | null }> {
    for (const row of this.#selectWaiting.iterate(lane)) {
      const waiting = row as unknown as WaitingRow;
      yield { num: waiting.num, stuck: this.#describeStuck(waiting, policy) };
    }
  }

  /**
   * A worker may be about to start, so a batch is not parked before its turn only because no worker
   * has its pipeline. But with the policy `skip` such a batch is passed over, or it would get the
   * lane again at once.
   */
  #describeStuck(waiting: WaitingRow, policy: LanePolicy): string | null {
    const held = readPause(waiting.pause);
    if (held !== null) return `its ${held.scope} is paused`;
    return policy === "skip" && !this.#workers.has(waiting) ? "no worker has its pipeline" : null;
  }

  #start(num: number): void {
    const now = Math.floor(this.#clock.monotonicMs());
    const wall = this.#clock.wallMs();
    const row = this.#hold.get(now, wall, wall, wall, num);
    const { step, drive, state } = row as Pick<BatchRow, "step" | "drive" | "state">;
    this.#records.record(num, { type: "batch.started", data: { step, drive } });
    if (state !== "ready") return;
    this.#records.move(num, "take_turn");
    this.#steps.adjustRunning(num);
  }

  /** Releases the lane; the caller must start the next batch. */
  release(num: number, lane: string): void {
    if (this.#release.run(num).changes === 0) return;
    this.#records.record(num, { type: "batch.released", data: { lane } });
  }

  /** Removes a batch from its lane's queue, until an operator resumes it. */
  park(num: number, { code, message }: EndReason): void {
    this.#park.run(code, message, num);
    this.#records.record(num, { type: "batch.parked", data: { code, message } });
    this.#stepAside(this.#records.get(num));
  }

  #stepAside({ num, lane, state }: BatchRow): void {
    if (state === "running") this.#records.move(num, "step_aside");
    this.#steps.adjustRunning(num);
    this.release(num, lane);
  }

  /** Whether another batch could run if the holder of the lane made way. */
  canMakeWay(num: number, lane: string): boolean {
    const policy = this.getPolicy(lane);
    if (policy === "block" || this.#steps.hasLeases(num)) return false;
    for (const { stuck } of this.#listCandidates(lane, policy)) if (stuck === null) return true;
    return false;
  }

  /** A stuck holder makes way for the batches behind it, by the lane's policy. */
  tendHolder(batch: BatchRow, stuck: string): boolean {
    if (!this.canMakeWay(batch.num, batch.lane)) return false;
    const decision = decideStuckHolder(this.getPolicy(batch.lane));
    if (decision === "step_aside") this.#stepAside(batch);
    if (decision === "park") this.park(batch.num, { code: "STUCK", message: stuck });
    return decision !== "stay";
  }

  /** Lanes that are free although batches wait in them. */
  listIdle(): string[] {
    return (this.#selectIdle.all() as unknown as { name: string }[]).map(({ name }) => name);
  }

  /** An ended batch is not paused: if it is reopened, it runs. */
  forgetPause(id: string): void {
    this.#dropPause.run(id);
  }

  /** False when the batch, or the one it should come before, is not waiting in the lane. */
  move({ num, id, lane }: BatchRow, move: LaneMove, act: Act): boolean {
    if (this.#selectPlace.get(id, lane) === undefined) return false;
    const place = this.#computePlace(num, lane, move);
    if (place === null) return false;
    this.#updatePlace.run(place, num);
    const data = "to" in move ? { to: move.to } : { before: move.before };
    this.#records.record(num, { type: "batch.moved", data: { ...data, ...describeAct(act) } });
    return true;
  }

  #computePlace(num: number, lane: string, move: LaneMove): number | null {
    if ("to" in move) {
      return move.to === "front" ? this.computeFront(num, lane) : this.computeBack(lane);
    }
    const other = this.#selectPlace.get(move.before, lane) as
      | { num: number; place: number }
      | undefined;
    if (other === undefined || other.num === num) return null;
    const before = this.#selectPlaceBefore.get(lane, num, other.place) as { place: number | null };
    if (before.place === null) return other.place - 1;
    const place = (before.place + other.place) / 2;
    if (place !== before.place && place !== other.place) return place;
    this.#spread(lane);
    return this.#computePlace(num, lane, move);
  }

  /** Numbers the places of a lane again: after many moves there is no number between two. */
  #spread(lane: string): void {
    const rows = this.#selectUnfinished.all(lane) as unknown as { num: number }[];
    for (const [index, { num }] of rows.entries()) this.#updatePlace.run(index + 1, num);
  }

  /** A place before every unfinished batch of the lane. */
  computeFront(num: number, lane: string): number {
    const { place } = this.#selectFront.get(lane, num) as { place: number | null };
    return place === null ? this.#records.get(num).place : place - 1;
  }

  /** A place after every unfinished batch of the lane. */
  computeBack(lane: string): number {
    const { place } = this.#selectBack.get(lane) as { place: number | null };
    return place === null ? 1 : place + 1;
  }
}
