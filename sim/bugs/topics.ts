/** Bugs of messages: repeated, forgotten, or missing. */
import type { Bug } from "./bug.ts";

export const topicBugs: readonly Bug[] = [
  {
    name: "messages-of-a-repeat-written-again",
    what: "A report that is repeated because its answer was lost writes its messages again.",
    file: "src/core/items/report.ts",
    before: "return isDone && getOutcome(stored.outcomes, index) === PENDING;",
    after: "return isDone;",
  },
  {
    name: "newer-messages-forgotten",
    what: "When the store has answered, the worker also forgets messages that were noted meanwhile.",
    file: "src/runtime/chunk/chunk-notes.ts",
    before: "this.#messages = this.#messages.slice(reported.messages.length);",
    after: "this.#messages = [];",
  },
  {
    name: "poison-not-reported",
    what: "Items that a sweep convicts become dead letters without a message in the errors topic.",
    file: "src/core/events/topic.ts",
    before: "const dead = track.filter((item) => item.dead)",
    after: 'const dead = track.filter((item) => item.dead && item.error?.code !== "POISON")',
  },
  {
    name: "messages-without-their-drive",
    what: "A redriven item writes its messages under the ids of its first drive.",
    file: "src/core/items/report.ts",
    before: "drive: drives.get(message.index) ?? 1",
    after: "drive: 1",
  },
];
