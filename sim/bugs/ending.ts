/** Bugs of endings: missing, repeated, too early, or with the wrong state. */
import type { Bug } from "./bug.ts";

const LIFECYCLE = "src/adapters/memory/batch-lifecycle.ts";
const SETTLING = "src/adapters/memory/settling.ts";
const STEP = "src/core/batch/step.ts";

export const endingBugs: readonly Bug[] = [
  {
    name: "ending-only-on-a-settle",
    what: "Only a settle checks whether the batch has ended: returning a lease ends nothing.",
    peers: ["bullmq#3235", "laravel#39562"],
    file: SETTLING,
    before: "      touched.add(held.batch);\n",
    after: '      if (held.chunk.state === "settled") touched.add(held.batch);\n',
    rare: true,
  },
  {
    name: "sweep-ends-nothing",
    what: "A sweep that settles the last chunk or takes back the last lease does not check whether the batch has ended.",
    peers: ["bullmq#2464", "bullmq#2531", "horizon#1512"],
    file: "src/adapters/memory/sweeping.ts",
    before: "      ended.push(...this.#lifecycle.advanceBatch(batch));\n",
    after: "",
  },
  {
    name: "ending-written-again",
    what: "A report that is repeated after the ending writes the ending once more.",
    peers: ["sidekiq#6852", "good_job#832", "laravel#38804"],
    file: SETTLING,
    before: '      if (held === null) return "lost";',
    after: `      if (held === null) {
        const over = this.#state.batches.get(report.batch);
        if (over !== undefined) touched.add(over);
        return "lost";
      }`,
    also: [
      {
        file: LIFECYCLE,
        before: "if (isEnded(batch.state)) return false;\n    if (batch.cancel !== null) {",
        after: `if (isEnded(batch.state)) {
      const data = { state: batch.state, drive: batch.drive, counts: { ...countAll(batch) } };
      this.#records.record(batch, { type: "batch.ended", data });
      return true;
    }
    if (batch.cancel !== null) {`,
      },
    ],
    rare: true,
  },
  {
    name: "ends-before-it-is-sealed",
    what: "An open batch ends as soon as the items that it has so far are done.",
    peers: ["sidekiq#2268", "plines#44"],
    file: STEP,
    before: "if (!sealed || counts.pending > 0)",
    after: "if (counts.pending > 0)",
  },
  {
    name: "ends-with-one-pending",
    what: "A batch ends while one item is left.",
    peers: ["laravel#39562", "bullmq#2644"],
    file: STEP,
    before: "if (!sealed || counts.pending > 0)",
    after: "if (!sealed || counts.pending > 1)",
  },
  {
    name: "success-over-a-dead-letter",
    what: "A batch with one dead letter is called a success.",
    peers: ["laravel#35711"],
    file: "src/core/batch/batch.ts",
    before: "return counts.failed > 0 ?",
    after: "return counts.failed > 1 ?",
  },
  {
    name: "failures-of-the-last-step-only",
    what: "The ending depends only on the last step: failures of earlier steps do not count.",
    peers: ["bullmq#2708"],
    file: LIFECYCLE,
    before: `      case "end":
        this.#end(batch, decideEnding(countAll(batch)), null);`,
    after: `      case "end":
        this.#end(batch, decideEnding(step.counts), null);`,
  },
  {
    name: "last-step-forgotten",
    what: "A batch ends before its last step.",
    file: LIFECYCLE,
    before: "isLast: batch.step === settings.steps.length - 1,",
    after: "isLast: batch.step >= settings.steps.length - 2,",
  },
  {
    name: "late-settle-after-an-early-end",
    what: "A batch that failed or expired keeps its leases: a late settle changes it.",
    peers: ["term-llm#790", "river#1302"],
    file: LIFECYCLE,
    before: 'if (chunk.state === "leased" || chunk.state === "waiting") chunk.state = "cancelled";',
    after: 'if (chunk.state === "waiting") chunk.state = "cancelled";',
    rare: true,
  },
  {
    name: "deadline-never-checked",
    what: "Nothing checks the deadline of a batch.",
    peers: ["river#1258"],
    file: "src/adapters/memory/sweeping.ts",
    before: "if (deadlineAt !== null && deadlineAt <= now) {",
    after: "if (deadlineAt !== null && deadlineAt <= 0) {",
  },
  {
    name: "seal-deadline-never-checked",
    what: "A batch whose producer died waits for its items for ever.",
    peers: ["sidekiq#5143"],
    file: "src/adapters/memory/sweeping.ts",
    before: "if (!sealed && sealDeadlineAt !== null && sealDeadlineAt <= now) {",
    after: "if (!sealed && sealDeadlineAt !== null && sealDeadlineAt <= 0) {",
  },
];
