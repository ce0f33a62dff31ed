/** Bugs of limits: budgets, canaries, concurrency and time. */
import type { Bug } from "./bug.ts";

const ITEM_LOOP = "src/runtime/running/item-loop.ts";

export const limitBugs: readonly Bug[] = [
  {
    name: "budget-one-too-few",
    what: "A batch stops when its failures reach its budget.",
    file: "src/core/batch/failure-budget.ts",
    before: "? failed > allowance.count",
    after: "? failed >= allowance.count",
  },
  {
    name: "budget-one-too-many",
    what: "A batch may have one failure more than its budget.",
    file: "src/core/batch/failure-budget.ts",
    before: "? failed > allowance.count",
    after: "? failed > allowance.count + 1",
    rare: true,
  },
  {
    name: "canary-not-waited-for",
    what: "The whole step runs at once, whatever happens to its first items.",
    file: "src/adapters/memory/leasing.ts",
    before: "    .slice(0, step.canaryChunks ?? undefined)\n",
    after: "",
    rare: true,
  },
  {
    name: "one-handler-too-many",
    what: "One handler more than the limit runs at once.",
    peers: ["bull#2777", "solid_queue#761"],
    file: ITEM_LOOP,
    before: "while (this.isOpen && this.#slots.size < controller.slots) {",
    after: "while (this.isOpen && this.#slots.size <= controller.slots) {",
  },
  {
    name: "time-limit-not-enforced",
    what: "A handler that never returns is never abandoned.",
    peers: ["bullmq#4479", "bull#718"],
    file: "src/runtime/running/timeout-watcher.ts",
    before: "if (overMs >= abortGraceMs) abandon(slot);",
    after: "if (overMs >= abortGraceMs * 1_000_000) abandon(slot);",
  },
  {
    name: "late-answer-of-an-abandoned-handler",
    what: "An abandoned handler returns later, and its answer counts as well.",
    peers: ["bull#718", "hatchet#1022"],
    file: ITEM_LOOP,
    before: "          if (slot.abandoned) return;\n          this.#judge.note(",
    after: "          this.#judge.note(",
    rare: true,
  },
];
