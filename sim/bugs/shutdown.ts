/** Bugs of closing: what is in hand when a worker stops, and what it leaves behind. */
import type { Bug } from "./bug.ts";

const WORKER = "src/runtime/worker.ts";

export const shutdownBugs: readonly Bug[] = [
  {
    name: "timer-left-behind",
    what: "A worker that has stopped goes on renewing.",
    peers: ["silo#399", "bullmq#282"],
    file: WORKER,
    before: "    this.#cancelRenewal();\n    this.#unwatch();\n",
    after: "    this.#unwatch();\n",
  },
  {
    name: "wave-waits-for-a-runner-that-is-over",
    what: "A careful run whose next wave is ready when its worker stops waits to be called.",
    peers: ["bullmq#834"],
    file: "src/runtime/item-runner.ts",
    before: "    if (this.#paused && !alone && !this.#cleared) {\n",
    after: "    if (this.#paused && !alone) {\n",
  },
];
