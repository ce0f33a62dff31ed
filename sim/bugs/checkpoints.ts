/** Bugs of checkpoints and of edited items: what a handler gets when it runs again. */
import type { Bug } from "./bug.ts";

const CHUNK_RUN = "src/runtime/chunk/chunk-run.ts";

export const checkpointBugs: readonly Bug[] = [
  {
    name: "checkpoint-lost",
    what: "A checkpoint is forgotten unless its item has failed before.",
    file: "src/core/items/tracked-item.ts",
    before: "dueAt > 0 || checkpoint !== null || drive > 1",
    after: "dueAt > 0 || drive > 1",
  },
  {
    name: "checkpoint-acknowledged-early",
    what: "A handler's `checkpoint` call returns before the store has the checkpoint.",
    peers: ["sidekiq#4361"],
    file: CHUNK_RUN,
    before: "    return saved;\n",
    after: "    saved.catch(() => undefined);\n    return Promise.resolve();\n",
    rare: true,
  },
  {
    name: "checkpoint-of-another-item",
    what: "An item continues from the checkpoint of the first item in its chunk that has one.",
    file: CHUNK_RUN,
    before: "return this.#histories?.get(index)?.checkpoint ?? null;",
    after:
      "return [...(this.#histories?.values() ?? [])].find((one) => one.checkpoint)?.checkpoint ?? null;",
    rare: true,
  },
  {
    name: "checkpoint-lost-at-a-failure",
    what: "An item that fails between two stages starts from the beginning.",
    file: "src/core/items/report.ts",
    before: "    ...getItem(items, index, key),\n    key,\n    attempts,\n",
    after: "    ...getItem(items, index, key),\n    checkpoint: null,\n    key,\n    attempts,\n",
  },
  {
    name: "checkpoint-lost-in-a-redrive",
    what: "A redriven item starts from the beginning.",
    file: "src/core/items/redrive.ts",
    before: "      error: null,\n      drive,\n",
    after: "      error: null,\n      checkpoint: null,\n      drive,\n",
  },
  {
    name: "edit-ignored",
    what: "A redriven item runs with its content before the edit.",
    file: CHUNK_RUN,
    before: "this.lease.overrides.length === 0 ? items : applyOverrides(items, this.lease);",
    after: "applyOverrides(items, { ...this.lease, overrides: [] });",
    rare: true,
  },
];
