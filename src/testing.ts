/** For tests of your own pipelines: engines in virtual time, faults where you want them, kills everywhere. */
export { inVirtualTime } from "./testing/world/in-virtual-time.ts";
export {
  crash,
  type Fault,
  type FaultTarget,
  late,
  loseAnswer,
  refuse,
} from "./testing/faults/faults.ts";
export { killAtEveryCommit } from "./testing/kills/kill-at-every-commit.ts";
export type {
  BatchToRun,
  EndedBatch,
  KillOptions,
  KillReport,
} from "./testing/kills/kill-options.ts";
export type { FaultPoint, FaultWord } from "./testing/faults/fault-points.ts";
export type {
  Process,
  Program,
  World,
  WorldEngineOptions,
  WorldOptions,
} from "./testing/world/world.ts";
