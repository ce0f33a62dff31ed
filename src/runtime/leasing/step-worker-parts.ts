/** What a step worker is made with. */
import type { Redact } from "../../core/base/redact.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Random } from "../../ports/random.ts";
import type { Store } from "../../ports/store/store.ts";
import type { CpuPools } from "../cpu/cpu-pools.ts";
import type { ExclusiveRun } from "../running/exclusive-run.ts";
import type { HandlerTimings, WorkerHealth } from "../health/worker-health.ts";
import type { Log } from "../system/log.ts";
import type { StepMeter } from "../observing/meter.ts";
import type { Pipeline } from "../pipeline/pipeline.ts";
import type { RuntimeSettings } from "../system/settings.ts";
import type { SlotPermits } from "../limits/slot-permits.ts";
import type { Step } from "../pipeline/step.ts";

export interface StepWorkerParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly redact: Redact;
  readonly settings: RuntimeSettings;
  readonly cpu: CpuPools;
  readonly exclusiveRun: ExclusiveRun;
  /** Shared by all step workers of a worker. */
  readonly permits: SlotPermits;
  /** Gets what the worker holds and does, if its health is watched. */
  readonly health?: WorkerHealth | undefined;
  readonly pulse?: HandlerTimings | undefined;
  /** Counts the outcomes of the step's items here. */
  readonly meter: StepMeter;
  readonly worker: number;
  readonly pipeline: Pipeline;
  readonly step: Step;
  /** Only this batch, or null for all of the pipeline's. */
  readonly batch: string | null;
  /** This worker cannot continue. */
  readonly onFatal: (error: unknown) => void;
  /** These batches ended with a commit of this step worker. */
  readonly onEnded: (batches: readonly string[]) => void;
}
