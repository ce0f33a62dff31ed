/** Bugs of watching: what is taken for a stall or for an orphan, and who notices work. */
import type { Bug } from "./bug.ts";

const SWEEPING = "src/adapters/memory/sweeping.ts";

export const watchingBugs: readonly Bug[] = [
  {
    name: "stall-while-paused",
    what: "A batch that somebody paused is given up.",
    file: SWEEPING,
    before: "mayRun(this.#state, batch) && currentStep(batch).watchDueAt <= now",
    after: 'batch.state === "running" && currentStep(batch).watchDueAt <= now',
    rare: true,
  },
  {
    name: "conductor-needs-a-word",
    what: "Batches are looked for to be sliced only when a word of a change arrives.",
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
