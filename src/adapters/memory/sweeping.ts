/** Acting on what has run out: leases, deadlines, watches, orphans; on the reference model. */
import { type EndReason, isEnded } from "../../core/batch.ts";
import { decideLoss, failPending, STALLED } from "../../core/loss.ts";
import {
  computeWatchDelayMs,
  countsAsStall,
  decideWatch,
  FIRST_LOOK,
  isWithoutProgress,
  noteLook,
} from "../../core/watch.ts";
import type { Clock } from "../../ports/clock.ts";
import { nameSlicingDuty } from "../../ports/conducting.ts";
import type { SweepPolicy, SweepResult } from "../../ports/working.ts";
import type { Lanes } from "./lanes.ts";
import { type Life, readStored } from "./life.ts";
import {
  type Batch,
  currentStep,
  findPause,
  hasLeases,
  hasWorker,
  noteAbandoned,
  type State,
} from "./state.ts";
import { listDue, mayRun, type Working } from "./working.ts";

export class Sweeping {
  readonly #state: State;
  readonly #clock: Clock;
  readonly #lanes: Lanes;
  readonly #life: Life;
  readonly #working: Working;

  constructor(state: State, clock: Clock, lanes: Lanes, life: Life, working: Working) {
    this.#state = state;
    this.#clock = clock;
    this.#lanes = lanes;
    this.#life = life;
    this.#working = working;
  }

  sweep(policy: SweepPolicy): SweepResult {
    const batches = [...this.#state.batches.values()].filter(({ state }) => !isEnded(state));
    const lost = batches.map((batch) => this.#sweepLeases(batch));
    const lostLeases = lost.reduce((sum, one) => sum + one, 0);
    const ended = [
      ...batches.filter((_, at) => (lost[at] as number) > 0).flatMap((b) => this.#life.goOn(b)),
      // Those that wait come first: nobody is to be started only to expire.
      ...batches
        .toSorted((a, b) => Number(a.active) - Number(b.active))
        .flatMap((batch) => this.#sweepDeadlines(batch)),
    ];
    let tended = 0;
    for (const batch of batches) {
      if (this.#watch(batch, policy, ended)) tended++;
      if (this.#tendLane(batch, policy)) {
        tended++;
        ended.push(...this.#life.giveTurn(batch.submission.lane));
      }
    }
    for (const lane of this.#lanes.listIdle()) ended.push(...this.#life.giveTurn(lane));
    return { lostLeases, tended, ended };
  }

  #sweepLeases(batch: Batch): number {
    const now = this.#clock.monotonicMs();
    let lost = 0;
    for (const [number, step] of batch.steps.entries()) {
      for (const [at, chunk] of step.chunks.entries()) {
        if (chunk.state !== "leased" || chunk.leaseUntil > now) continue;
        lost++;
        chunk.careful = true;
        if (batch.cancel !== null) {
          noteAbandoned(batch, { step: number, chunk: at, items: null });
        }
        this.#working.apply(step, chunk, decideLoss(readStored(chunk), now));
      }
    }
    return lost;
  }

  #sweepDeadlines(batch: Batch): string[] {
    const reason = this.#findPassedDeadline(batch);
    return reason === null ? [] : this.#life.endEarly(batch, "expire", reason);
  }

  #findPassedDeadline(batch: Batch): EndReason | null {
    if (isEnded(batch.state)) return null;
    const now = this.#clock.wallMs();
    const { sealed, sealDeadlineAt, deadlineAt } = batch;
    if (deadlineAt !== null && deadlineAt <= now) {
      return { code: "DEADLINE", message: "it did not end before its deadline" };
    }
    if (!sealed && sealDeadlineAt !== null && sealDeadlineAt <= now) {
      return { code: "SEAL_DEADLINE", message: "its producer did not seal it in time" };
    }
    return null;
  }

  /** Looks whether a running batch moves; true when it had to act. */
  #watch(batch: Batch, policy: SweepPolicy, ended: string[]): boolean {
    const step = currentStep(batch);
    const now = this.#clock.monotonicMs();
    if (!mayRun(this.#state, batch) || step.watchDueAt > now) return false;
    const look = {
      ...step.watch,
      current: step.counts.pending,
      target: 0,
      stallsMax: policy.stallsMax,
    };
    const decision = decideWatch(look);
    const facts = {
      hasDueWork: listDue(step, now).length > 0,
      hasLiveLease: hasLeases(batch),
      isPaused: false,
      hasWorker: this.#hasWorker(batch),
    };
    if (decision === "progress_made" || facts.hasLiveLease) {
      batch.activityAt = this.#clock.wallMs();
    }
    const stalls = isWithoutProgress(decision) && countsAsStall(facts);
    step.watch = noteLook(look, decision, stalls);
    step.watchDueAt =
      now +
      computeWatchDelayMs(look.current, stalls ? decision : "progress_made", policy.watchDelays);
    if (!stalls) return false;
    if (decision !== "retries_exhausted") return true;
    step.watch = FIRST_LOOK;
    for (const chunk of step.chunks) {
      if (chunk.state !== "planned" && chunk.state !== "waiting") continue;
      chunk.fence++;
      this.#working.apply(step, chunk, failPending(readStored(chunk), STALLED));
    }
    ended.push(...this.#life.goOn(batch));
    return true;
  }

  #hasWorker(batch: Batch): boolean {
    return hasWorker(this.#state, this.#clock.monotonicMs(), batch);
  }

  /** A batch that holds its lane and cannot go on makes way; true when its lane is free now. */
  #tendLane(batch: Batch, policy: SweepPolicy): boolean {
    if (!batch.active || isEnded(batch.state) || batch.cancel !== null) return false;
    const pause = findPause(this.#state, batch);
    if (pause !== null) return this.#lanes.tendHolder(batch, `its ${pause.scope} is paused`);
    const idleMs = this.#clock.wallMs() - batch.activityAt;
    if (idleMs < policy.orphanMs || hasLeases(batch)) return false;
    const unplanned = batch.state === "submitted" || batch.state === "slicing";
    const worked = this.#state.claims.get(nameSlicingDuty(batch.submission.id));
    if (unplanned && (worked?.until ?? 0) <= this.#clock.monotonicMs()) {
      if (idleMs >= policy.staleMs) {
        currentStep(batch).sliceFence++;
        this.#lanes.park(batch, {
          code: "STALE",
          message: "its items were never planned whole, and nobody has gone on with it for hours",
        });
        return true;
      }
    }
    if (this.#hasWorker(batch)) return false;
    return this.#lanes.tendHolder(batch, "no worker has its pipeline");
  }
}
