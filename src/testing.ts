/** For tests of your own pipelines: engines in virtual time, faults where you want them, kills everywhere. */
export { crash, type Fault, late, loseAnswer, refuse } from "./testing/faults/faults.ts";
export { killAtEveryCommit } from "./testing/kills/kill-at-every-commit.ts";
export type { KillReport } from "./testing/kills/kill-options.ts";
export { inVirtualTime } from "./testing/world/in-virtual-time.ts";
export type { World } from "./testing/world/world.ts";
