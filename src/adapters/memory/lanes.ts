/** The order of batches in each lane of the reference model. */
import { type Act, describeAct, type EndReason, isEnded } from "../../core/batch/batch.ts";
import { invariant } from "../../core/base/invariant.ts";
import {
  DEFAULT_LANE_POLICY,
  decideStuckHolder,
  decideTurn,
  type LanePolicy,
} from "../../core/batch/lane.ts";
import type { Clock } from "../../ports/clock.ts";
import type { LaneMove } from "../../ports/store/operator-store.ts";
import type { RecordLog } from "./records.ts";
import { type Batch, findPause, hasLeases, hasWorker, namePause, type State } from "./state.ts";

export class Lanes {
  readonly #state: State;
  readonly #clock: Clock;
  readonly #records: RecordLog;

  constructor(state: State, clock: Clock, records: RecordLog) {
    this.#state = state;
    this.#clock = clock;
    this.#records = records;
  }

  getPolicy(lane: string): LanePolicy {
    return this.#state.lanePolicies.get(lane) ?? DEFAULT_LANE_POLICY;
  }

  findHolder(lane: string): Batch | undefined {
    return [...this.#state.batches.values()].find(
      ({ active, submission }) => active && submission.lane === lane,
    );
  }

  /** The waiting batches of a lane, the next one first. */
  listWaiting(lane: string): Batch[] {
    return [...this.#state.batches.values()]
      .filter(
        (batch) =>
          batch.submission.lane === lane &&
          !batch.active &&
          batch.parked === null &&
          !isEnded(batch.state),
      )
      .toSorted((a, b) => a.place - b.place);
  }

  /** Gives a free lane to its next batch; null when it is taken or no batch can run. */
  startNextInLane(lane: string): Batch | null {
    if (this.findHolder(lane) !== undefined) return null;
    const policy = this.getPolicy(lane);
    const candidates = this.listWaiting(lane).map((batch) => ({
      batch,
      stuck: this.#describeStuck(batch, policy),
    }));
    const { start, park } = decideTurn(policy, candidates);
    for (const { batch, stuck } of park) {
      this.park(batch, { code: "STUCK", message: stuck as string });
    }
    if (start === null) return null;
    this.#start(start.batch);
    return start.batch;
  }

  #start(batch: Batch): void {
    invariant(this.findHolder(batch.submission.lane) === undefined, "one batch holds a lane");
    batch.active = true;
    batch.activityAt = this.#clock.monotonicMs();
    if (batch.startedAt === null) {
      batch.startedAt = this.#clock.wallMs();
      const { maxRunMs } = batch.submission.settings;
      const runUntil = batch.startedAt + (maxRunMs ?? Number.POSITIVE_INFINITY);
      const deadlineAt = Math.min(batch.deadlineAt ?? Number.POSITIVE_INFINITY, runUntil);
      batch.deadlineAt = deadlineAt === Number.POSITIVE_INFINITY ? null : deadlineAt;
    }
    const { step, drive } = batch;
    this.#records.record(batch, { type: "batch.started", data: { step, drive } });
    if (batch.state === "ready") this.#records.move(batch, "take_turn");
  }

  /** Releases the lane; the caller must start the next batch. */
  release(batch: Batch): void {
    if (!batch.active) return;
    batch.active = false;
    this.#records.record(batch, {
      type: "batch.released",
      data: { lane: batch.submission.lane },
    });
  }

  /** Lanes that are free although batches wait in them, in the order of their names. */
  listIdle(): string[] {
    const waiting = [...this.#state.batches.values()].filter(
      ({ state, active, parked }) => !isEnded(state) && !active && parked === null,
    );
    return [...new Set(waiting.map(({ submission }) => submission.lane))]
      .filter((lane) => this.findHolder(lane) === undefined)
      .toSorted();
  }

  /** An ended batch is not paused: if it is reopened, it runs. */
  forgetPause({ submission }: Batch): void {
    this.#state.pauses.delete(namePause({ scope: "batch", name: submission.id }));
  }

  /** Removes a batch from its lane's queue, until an operator resumes it. */
  park(batch: Batch, { code, message }: EndReason): void {
    batch.parked = { code, message };
    this.#records.record(batch, { type: "batch.parked", data: { code, message } });
    this.#stepAside(batch);
  }

  #stepAside(batch: Batch): void {
    if (batch.state === "running") this.#records.move(batch, "step_aside");
    this.release(batch);
  }

  /** A stuck holder makes way for the batches behind it, by the lane's policy. */
  tendHolder(batch: Batch, stuck: string): boolean {
    const { lane } = batch.submission;
    const policy = this.getPolicy(lane);
    const makesWay =
      !hasLeases(batch) &&
      this.listWaiting(lane).some((next) => this.#describeStuck(next, policy) === null);
    if (!makesWay) return false;
    const decision = decideStuckHolder(policy);
    if (decision === "step_aside") this.#stepAside(batch);
    if (decision === "park") this.park(batch, { code: "STUCK", message: stuck });
    return decision !== "stay";
  }

  /**
   * A worker may be about to start, so a batch is not parked before its turn only because no worker
   * has its pipeline. But with the policy `skip` such a batch is passed over, or it would get the
   * lane again at once.
   */
  #describeStuck(batch: Batch, policy: LanePolicy): string | null {
    const pause = findPause(this.#state, batch);
    if (pause !== null) return `its ${pause.scope} is paused`;
    const served = hasWorker(this.#state, this.#clock.monotonicMs(), batch);
    return policy === "skip" && !served ? "no worker has its pipeline" : null;
  }

  move(batch: Batch, move: LaneMove, act: Act): boolean {
    const { lane } = batch.submission;
    const waiting = this.listWaiting(lane);
    if (!waiting.includes(batch)) return false;
    if ("to" in move) {
      batch.place = move.to === "front" ? this.computeFront(batch) : this.computeBack(lane);
    } else {
      const other = waiting.find(({ submission }) => submission.id === move.before);
      if (other === undefined || other === batch) return false;
      batch.place = this.#computeBefore(batch, other);
    }
    const data = "to" in move ? { to: move.to } : { before: move.before };
    this.#records.record(batch, { type: "batch.moved", data: { ...data, ...describeAct(act) } });
    return true;
  }

  /** A place between another batch and the one before it; no other batch, parked or not, has it. */
  #computeBefore(batch: Batch, other: Batch): number {
    const { lane } = batch.submission;
    const before = this.#listUnfinished(lane).findLast(
      (one) => one !== batch && one.place < other.place,
    );
    if (before === undefined) return other.place - 1;
    const place = (before.place + other.place) / 2;
    if (place !== before.place && place !== other.place) return place;
    // After many moves there is no number between two places: number them again.
    for (const [index, one] of this.#listUnfinished(lane).entries()) one.place = index + 1;
    return this.#computeBefore(batch, other);
  }

  /** A place before every unfinished batch of the lane. */
  computeFront(batch: Batch): number {
    const first = this.#listUnfinished(batch.submission.lane).find((one) => one !== batch);
    return first === undefined ? batch.place : first.place - 1;
  }

  /** A place after every unfinished batch of the lane. */
  computeBack(lane: string): number {
    return (this.#listUnfinished(lane).at(-1)?.place ?? 0) + 1;
  }

  #listUnfinished(lane: string): Batch[] {
    return [...this.#state.batches.values()]
      .filter(({ submission, state }) => submission.lane === lane && !isEnded(state))
      .toSorted((a, b) => a.place - b.place);
  }
}
