/** Bugs of watching: what counts as a stall or an orphan, and how work is noticed. */
import type { Bug } from "./bug.ts";

const SWEEPING = "src/adapters/memory/sweeping.ts";

export const watchingBugs: readonly Bug[] = [
  {
    name: "stall-while-paused",
    what: "A paused batch is given up as stalled.",
    file: SWEEPING,
    before: "mayRun(this.#state, batch) && currentStep(batch).watchDueAt <= now",
    after: 'batch.state === "running" && currentStep(batch).watchDueAt <= now',
    rare: true,
  },
  {
    name: "conductor-needs-a-notification",
    what: "The conductor looks for batches to slice only when a notification arrives.",
    peers: ["oban ee1048ab", "pg-boss#549"],
    file: "src/runtime/conducting/conductor.ts",
    before: "await this.#changed.wait(settings.pollMs);",
    after: "await this.#changed.wait(settings.pollMs * 1_000_000);",
    rare: true,
  },
  {
    name: "sweep-stops-after-a-refusal",
    what: "One sweep that the store refuses ends all sweeping.",
    peers: ["pg-boss#549", "bullmq#4585"],
    file: "src/runtime/conducting/sweeper.ts",
    before: "if (waitMs === null) throw error;",
    after: "if (waitMs === null) throw error;\n        return;",
    rare: true,
  },
];
