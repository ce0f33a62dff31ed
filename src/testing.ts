/** For tests of your own pipelines: engines in virtual time, faults where you want them, kills everywhere. */
export { inVirtualTime } from "./testing/in-virtual-time.ts";
export { crash, type Fault, type FaultTarget, late, loseAnswer, refuse } from "./testing/faults.ts";
export { killAtEveryCommit } from "./testing/kill-at-every-commit.ts";
export type { BatchToRun, EndedBatch, KillOptions, KillReport } from "./testing/kill-options.ts";
export type { FaultPoint, FaultWord } from "./testing/fault-points.ts";
export type {
  Process,
  Program,
  World,
  WorldEngineOptions,
  WorldOptions,
} from "./testing/world.ts";
