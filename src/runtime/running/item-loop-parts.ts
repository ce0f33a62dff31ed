/** What an item runner is made of, and whom it tells. */
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
  /** Is told of each call, where somebody watches over them. */
  readonly pulse?: HandlerTimings | undefined;
}

/** Hands out the right to start items of limited steps: see limiter.ts. */
export interface StartRights {
  /** Nothing waits for a limit. */
  readonly isIdle: boolean;
  /** Calls that have ended, since tokens were granted last. */
  ended: number;
  /** Items in hand that will start within a moment. */
  readonly soon: number;
  take(now: number, run?: ChunkRun | null): StartRight | null;
  canTake(now: number): boolean;
  /** There is a free slot: what waits may draw. */
  ask(): void;
  drop(run: ChunkRun): void;
  clear(): readonly ChunkRun[];
  review(): void;
  /** Whether what has been on its way since then has lost its right to start. */
  isLate(until: number, since: number): boolean;
}

export interface ItemLoopListener {
  /** Nothing of the run is left to start and nothing of it runs. */
  onFinished(run: ChunkRun): void;
  /** What is left of the run may not start any more, by the limits of its step. */
  onExpired(run: ChunkRun): void;
  /** The last item of a chunk was started: it may be time to lease the next. */
  onUsedUp(): void;
  /** A chunk has many outcomes that the store does not know. */
  onReportDue(): void;
  /** A handler says that this worker cannot go on. */
  onFatal(error: unknown): void;
  /** A server asks for less, and may say how long an item's key should be left alone. */
  onThrottled(item: unknown, forMs: number | null): void;
  /** What a paced batch goes out through is away. */
  onOutage(run: ChunkRun): void;
  /** The head of the queue was lost before, and nothing else runs: its turn to run guarded. */
  runGuarded(run: ChunkRun): Promise<void>;
}

export interface Wave {
  readonly indexes: readonly number[];
  /** Runs while every runner of the process is paused. */
  readonly alone: boolean;
  /** They must start before, as their limits say. */
  readonly until: number;
  /** Says that the items start; false means that they must not. */
  readonly announce: () => Promise<boolean>;
  /** Says what became of them, before anything else may start. */
  readonly report: () => Promise<void>;
}
