/** What an item loop is made with, and the listeners that it calls. */
import type { Clock } from "../../ports/clock.ts";
import type { Random } from "../../ports/random.ts";
import type { ChunkRun } from "../chunk/chunk-run.ts";
import type { HandlerTimings } from "../health/worker-health.ts";
import type { Log } from "../system/log.ts";
import type { ConcurrencyController } from "../limits/concurrency-controller.ts";
import type { SlotPermits } from "../limits/slot-permits.ts";
import type { Step } from "../pipeline/step.ts";
import type { StartRight } from "../limits/waiting-items.ts";

export interface ItemLoopParts {
  readonly step: Step;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly abortGraceMs: number;
  readonly flushItems: number;
  readonly rights: StartRights;
  readonly controller: ConcurrencyController;
  readonly permits: SlotPermits;
  /** Notes each call, if the worker's health is watched. */
  readonly pulse?: HandlerTimings | undefined;
}

/** Gives the right to start items of limited steps: see limiter.ts. */
export interface StartRights {
  /** Nothing waits for a limit. */
  readonly isIdle: boolean;
  /** Calls that ended since tokens were last granted. */
  ended: number;
  /** Held items that will start within a moment. */
  readonly soon: number;
  take(now: number, run?: ChunkRun | null): StartRight | null;
  canTake(now: number): boolean;
  /** There is a free slot: waiting items may draw tokens. */
  request(): void;
  drop(run: ChunkRun): void;
  clear(): readonly ChunkRun[];
  review(): void;
  /** Whether something that was admitted at `since` has lost its right to start. */
  isLate(until: number, since: number): boolean;
}

export interface ItemLoopListener {
  /** Nothing of the run is left to start and nothing of it runs. */
  onFinished(run: ChunkRun): void;
  /** The rest of the run may not start any more, by the limits of its step. */
  onExpired(run: ChunkRun): void;
  /** The last item of a chunk was started: it may be time to lease the next. */
  onUsedUp(): void;
  /** A chunk has many outcomes that are not reported yet. */
  onReportDue(): void;
  /** A handler threw a fatal error: this worker cannot continue. */
  onFatal(error: unknown): void;
  /** A server throttles, and may say for how long. */
  onThrottled(item: unknown, forMs: number | null): void;
  /** The system that a paced batch is sent through is unavailable. */
  onOutage(run: ChunkRun): void;
  /** The head of the queue was lost before, and nothing else runs: it may run guarded now. */
  runGuarded(run: ChunkRun): Promise<void>;
}

export interface Wave {
  readonly indexes: readonly number[];
  /** Runs while every item loop of the process is paused. */
  readonly alone: boolean;
  /** They must start before this time, by their limits. */
  readonly until: number;
  /** Reports that the items start; false means that they must not. */
  readonly announce: () => Promise<boolean>;
  /** Reports their outcomes, before anything else may start. */
  readonly report: () => Promise<void>;
}
