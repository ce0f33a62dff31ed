/** Bugs of stops: cancels and pauses that are lost, late or half done. */
import type { Bug } from "./bug.ts";

const SETTLING = "src/adapters/memory/settling.ts";
const LEASING = "src/adapters/memory/leasing.ts";
const OPERATOR_ACTS = "src/adapters/memory/operator-acts.ts";
const LIFECYCLE = "src/adapters/memory/batch-lifecycle.ts";
const STEP_WORKER = "src/runtime/leasing/step-worker.ts";

export const cancellingBugs: readonly Bug[] = [
  {
    name: "lease-after-cancel",
    what: "Chunks of a batch are leased after it was cancelled.",
    peers: ["windmill#11246", "river#678"],
    file: LEASING,
    before: 'return batch.state === "running" && batch.cancel === null &&',
    after: 'return batch.state === "running" &&',
    rare: true,
  },
  {
    name: "lease-while-paused",
    what: "Chunks of a batch are leased while it is paused.",
    file: LEASING,
    before: "&& batch.cancel === null && findPause(state, batch) === null;",
    after: "&& batch.cancel === null;",
  },
  {
    name: "pipeline-pause-ignored",
    what: "A pause of a whole pipeline stops nothing.",
    file: "src/adapters/memory/state.ts",
    before: '    state.pauses.get(namePause({ scope: "pipeline", name: pipeline })) ??\n',
    after: '    state.pauses.get(namePause({ scope: "pipeline", name: id + pipeline })) ??\n',
  },
  {
    name: "cancel-loses-the-race",
    what: "A cancel that meets a leased chunk succeeds and sets nothing.",
    peers: ["langfuse#15594", "windmill#11246"],
    file: OPERATOR_ACTS,
    before: "const first = batch.cancel === null;",
    after: "const first = batch.cancel === null && !hasLeases(batch);",
  },
  {
    name: "cancel-lost-at-the-last-item",
    what: "The commit that leaves nothing leased forgets the cancel: the batch goes on.",
    peers: ["windmill#11246", "term-llm#790"],
    file: LIFECYCLE,
    before: "if (hasLeases(batch)) return false;\n",
    after: `if (hasLeases(batch)) return false;
      if (batch.state === "running") {
        batch.cancel = null;
        return false;
      }
`,
  },
  {
    name: "cancel-acknowledged-too-early",
    what: "A cancel is acknowledged while workers still hold chunks of the batch.",
    peers: ["term-llm#918"],
    file: OPERATOR_ACTS,
    before: 'if (!hasLeases(batch)) lifecycle.endEarly(batch, "cancel", null);',
    after: 'lifecycle.endEarly(batch, "cancel", null);',
    rare: true,
  },
  {
    name: "cancel-keeps-the-lane",
    what: "A cancelled batch keeps its lane.",
    peers: ["OCA/queue#531", "graphile-worker#254"],
    file: LIFECYCLE,
    before: "    this.#lanes.release(batch);\n  }\n}",
    after: '    if (event !== "cancel") this.#lanes.release(batch);\n  }\n}',
  },
  {
    name: "stopped-chunk-runs-on",
    what: 'A stop with mode "now" signals the running handlers, and then starts the next items.',
    peers: ["bull#718"],
    file: STEP_WORKER,
    before: `      this.#items.skipRest(run);
      this.#items.stop(new StopSignal("its batch is being stopped"), run);`,
    after: '      this.#items.stop(new StopSignal("its batch is being stopped"), run);',
    rare: true,
  },
  {
    name: "abandoned-not-named",
    what: "A cancel is acknowledged without the names of the handlers that ignored it.",
    file: SETTLING,
    before: "if (report.abandoned.length > 0 && batch.cancel !== null) {",
    after: "if (report.abandoned.length > 1_000 && batch.cancel !== null) {",
    rare: true,
  },
];
