/** Bugs of attempts and back-off. */
import type { Bug } from "./bug.ts";

const RETRY = "src/core/base/retry.ts";
const REPORT = "src/core/items/report.ts";
const TRACKED = "src/core/items/tracked-item.ts";

export const retryingBugs: readonly Bug[] = [
  {
    name: "attempt-not-counted",
    what: "Attempts are not counted: an item that always fails is tried for ever.",
    peers: ["activepieces#15130", "iris-mpc#2290"],
    file: "src/runtime/running/outcome-classifier.ts",
    before: "const attempts = run.countAttempts(index) + 1;",
    after: "const attempts = run.countAttempts(index);",
  },
  {
    name: "one-attempt-too-many",
    what: "An item is tried once more than its maximum.",
    file: RETRY,
    before: "if (failed.attempts >= policy.attempts)",
    after: "if (failed.attempts > policy.attempts)",
  },
  {
    name: "one-attempt-too-few",
    what: "An item gives up before its last attempt.",
    peers: ["java-dynamic-sqs-listener#369"],
    file: RETRY,
    before: "if (failed.attempts >= policy.attempts)",
    after: "if (failed.attempts >= policy.attempts - 1)",
  },
  {
    name: "permanent-failure-retried",
    what: "A permanent failure is retried like any other.",
    file: RETRY,
    before: '      return { kind: "give_up" };\n    case "fatal":',
    after: '    case "fatal":',
    also: [
      {
        file: RETRY,
        before: '    case "permanent":\n',
        after: "",
      },
      {
        file: RETRY,
        before: '    case "transient":\n',
        after: '    case "permanent":\n    case "transient":\n',
      },
    ],
    rare: true,
  },
  {
    name: "back-off-skipped",
    what: "An item that failed is due at once.",
    file: REPORT,
    before: "dueAt: retryInMs === null ? 0 : nowMs + retryInMs,",
    after: "dueAt: retryInMs === null ? 0 : nowMs,",
  },
  {
    name: "back-off-ends-for-all-at-once",
    what: "When the first item of a chunk is due, items with a longer back-off run as well.",
    file: "src/runtime/chunk/chunk-run.ts",
    before:
      "if (this.#histories !== null && (this.#histories.get(index)?.dueInMs ?? 0) > 0) continue;",
    after: "",
  },
  {
    name: "back-off-holds-for-ever",
    what: "A chunk that is given back before any of its items failed is never due.",
    peers: ["graphile-worker#449", "sidekiq#5894"],
    file: TRACKED,
    before: "waiting.length < pending ? restUntil : Number.POSITIVE_INFINITY",
    after: "pending < 0 ? restUntil : Number.POSITIVE_INFINITY",
  },
  {
    name: "back-off-survives-a-redrive",
    what: "A redriven item starts with the attempts of the earlier drive.",
    file: "src/core/items/redrive.ts",
    before: "      attempts: 0,\n",
    after: "",
  },
  {
    name: "deferral-forgotten",
    what: "An item that asked for a later retry runs again at once.",
    file: TRACKED,
    before: "attempts + deaths > 0 || dueAt > 0 || checkpoint !== null",
    after: "attempts + deaths > 0 || checkpoint !== null",
    rare: true,
  },
];
