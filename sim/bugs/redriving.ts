/** Bugs of redrives: dead letters that are lost, taken too often, or miss what comes after. */
import type { Bug } from "./bug.ts";

const LIFECYCLE = "src/adapters/memory/batch-lifecycle.ts";
const OPERATOR_ACTS = "src/adapters/memory/operator-acts.ts";
const STEP = "src/core/batch/step.ts";
const REDRIVE = "src/core/items/redrive.ts";

export const redrivingBugs: readonly Bug[] = [
  {
    name: "redriven-item-lost",
    what: "A redriven item is pending again, in a chunk that nobody will lease.",
    peers: ["sidekiq#6250", "bull#2082"],
    file: LIFECYCLE,
    before: '      chunk.state = "waiting";\n      chunk.limitWait = null;\n',
    after: "      chunk.limitWait = null;\n",
  },
  {
    name: "redrive-keeps-the-drive",
    what: "A redrive takes outcomes back without a new drive.",
    file: LIFECYCLE,
    before: "    batch.drive++;\n",
    after: "",
  },
  {
    name: "discarded-letter-redriven",
    what: "A redrive takes letters along that somebody has discarded.",
    file: OPERATOR_ACTS,
    before: "if (error === null || step.discarded.has(item)) return false;",
    after: "if (error === null) return false;",
    rare: true,
  },
  {
    name: "ceiling-off-by-one",
    what: "A redrive takes one letter more than its ceiling.",
    file: OPERATOR_ACTS,
    before: "const chosen = free.slice(0, request.ceiling);",
    after: "const chosen = free.slice(0, request.ceiling + 1);",
    rare: true,
  },
  {
    name: "one-pass-too-many",
    what: "There is one automatic pass more than there may be.",
    file: STEP,
    before: "if (redrivable > 0 && passes < maxRedrives) {",
    after: "if (redrivable > 0 && passes <= maxRedrives) {",
  },
  {
    name: "final-pass-not-marked",
    what: "Handlers are not told that a pass is the last one.",
    file: "src/adapters/memory/leasing.ts",
    before: "final: step.passes >= maxRedrives,",
    after: "final: step.passes > maxRedrives,",
  },
  {
    name: "permanent-failure-redriven",
    what: "Automatic passes take permanent failures along.",
    file: STEP,
    before: 'return errorClass !== "permanent" && !CODES_NEVER_REDRIVEN',
    after: "return !CODES_NEVER_REDRIVEN",
    rare: true,
  },
  {
    name: "rescued-item-misses-the-next-step",
    what: "What a redrive rescues does not go on to the next step, which is planned already.",
    peers: ["bullmq#4332"],
    file: LIFECYCLE,
    before: "if (known === undefined || !known.sliced || settings.carries) {",
    after: "if (known === undefined || !known.sliced) {",
    rare: true,
  },
  {
    name: "old-results-fed-again",
    what: "After a redrive the next step gets the results of earlier drives once more.",
    peers: ["laravel#38804"],
    file: LIFECYCLE,
    before: "batch.sinceDrive = step.slicedDrive + 1;",
    after: "batch.sinceDrive = 1;",
    rare: true,
  },
  {
    name: "result-of-the-items-drive",
    what: "A result is filed under its item's drive, so the step after the next one misses a rescued item.",
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
    what: "What a reopened batch revives has no time at which it is due.",
    peers: ["graphile-worker#449"],
    file: REDRIVE,
    before: "dueAt: earliestDue(kept, stored.items - succeeded - skipped - failed, nowMs),",
    after: "dueAt: earliestDue(kept, 0, nowMs),",
    rare: true,
  },
];
