/** Bugs of redrives: dead letters that are lost, taken too often, or miss the next step. */
import type { Bug } from "./bug.ts";

const LIFECYCLE = "src/adapters/memory/batch-lifecycle.ts";
const OPERATOR_ACTS = "src/adapters/memory/operator-acts.ts";
const STEP = "src/core/batch/step.ts";
const REDRIVE = "src/core/items/redrive.ts";

export const redrivingBugs: readonly Bug[] = [
  {
    name: "redriven-item-lost",
    what: "A redriven item is pending again, in a chunk that is never leased.",
    peers: ["sidekiq#6250", "bull#2082"],
    file: LIFECYCLE,
    before: '      chunk.state = "waiting";\n      chunk.limitWait = null;\n',
    after: "      chunk.limitWait = null;\n",
  },
  {
    name: "redrive-keeps-the-drive",
    what: "A redrive takes back outcomes without a new drive.",
    file: LIFECYCLE,
    before: "    batch.drive++;\n",
    after: "",
  },
  {
    name: "discarded-letter-redriven",
    what: "A redrive includes dead letters that were discarded.",
    file: OPERATOR_ACTS,
    before: "if (error === null || step.discarded.has(item)) return false;",
    after: "if (error === null) return false;",
    rare: true,
  },
  {
    name: "ceiling-off-by-one",
    what: "A redrive takes one dead letter more than its ceiling.",
    file: OPERATOR_ACTS,
    before: "const chosen = free.slice(0, request.ceiling);",
    after: "const chosen = free.slice(0, request.ceiling + 1);",
    rare: true,
  },
  {
    name: "one-pass-too-many",
    what: "A step has one automatic pass more than its maximum.",
    file: STEP,
    before: "if (redrivable > 0 && passes < maxRedrives) {",
    after: "if (redrivable > 0 && passes <= maxRedrives) {",
  },
  {
    name: "final-pass-not-marked",
    what: "Handlers do not learn that a pass is the last one.",
    file: "src/adapters/memory/leasing.ts",
    before: "final: step.passes >= maxRedrives,",
    after: "final: step.passes > maxRedrives,",
  },
  {
    name: "permanent-failure-redriven",
    what: "Automatic passes include permanent failures.",
    file: STEP,
    before: 'return errorClass !== "permanent" && !CODES_NEVER_REDRIVEN',
    after: "return !CODES_NEVER_REDRIVEN",
    rare: true,
  },
  {
    name: "rescued-item-misses-the-next-step",
    what: "An item that a redrive rescues does not enter the next step, because that step is already planned.",
    peers: ["bullmq#4332"],
    file: LIFECYCLE,
    before: "if (known === undefined || !known.sliced || settings.carries) {",
    after: "if (known === undefined || !known.sliced) {",
    rare: true,
  },
  {
    name: "old-results-fed-again",
    what: "After a redrive the next step gets the results of earlier drives again.",
    peers: ["laravel#38804"],
    file: LIFECYCLE,
    before: "batch.sinceDrive = step.slicedDrive + 1;",
    after: "batch.sinceDrive = 1;",
    rare: true,
  },
  {
    name: "result-of-the-items-drive",
    what: "A result is stored under its item's drive, so the step after the next one misses a rescued item.",
    file: "src/adapters/memory/settling.ts",
    before:
      "    const { drive } = batch;\n    for (const { index, key, value } of effect.results) {\n",
    after: `    for (const { index, key, value } of effect.results) {
      const drive = chunk.tracked.get(index)?.drive ?? 1;
`,
    rare: true,
  },
  {
    name: "revived-chunk-never-due",
    what: "Chunks that a reopened batch revives have no due time.",
    peers: ["graphile-worker#449"],
    file: REDRIVE,
    before: "dueAt: earliestDue(kept, stored.items - succeeded - skipped - failed, nowMs),",
    after: "dueAt: earliestDue(kept, 0, nowMs),",
    rare: true,
  },
];
