/** Bugs of closing: what a worker still runs when it stops, and what it leaves behind. */
import type { Bug } from "./bug.ts";

const WORKER = "src/runtime/leasing/worker.ts";

export const shutdownBugs: readonly Bug[] = [
  {
    name: "timer-left-behind",
    what: "A worker that has stopped continues to renew.",
    peers: ["silo#399", "bullmq#282"],
    file: WORKER,
    before: "    this.#cancelRenewal();\n    this.#unwatch();\n",
    after: "    this.#unwatch();\n",
  },
];
