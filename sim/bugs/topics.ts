/** Bugs of messages: written twice, forgotten, or not told. */
import type { Bug } from "./bug.ts";

export const topicBugs: readonly Bug[] = [
  {
    name: "messages-of-a-repeat-written-again",
    what: "A report that is repeated, as its answer was lost, leaves its messages once more.",
    file: "src/core/items/report.ts",
    before: "return isDone && getOutcome(stored.outcomes, index) === PENDING;",
    after: "return isDone;",
  },
  {
    name: "newer-messages-forgotten",
    what: "When the store has answered, also messages that were noted meanwhile are forgotten.",
    file: "src/runtime/chunk/chunk-notes.ts",
    before: "this.#messages = this.#messages.slice(reported.messages.length);",
    after: "this.#messages = [];",
  },
  {
    name: "poison-not-told",
    what: "Items that a sweep convicts are dead letters, and the errors topic does not hear of them.",
    file: "src/core/events/topic.ts",
    before: "const dead = track.filter((item) => item.dead)",
    after: 'const dead = track.filter((item) => item.dead && item.error?.code !== "POISON")',
  },
  {
    name: "messages-without-their-drive",
    what: "A redriven item leaves its messages under the ids of its first drive.",
    file: "src/core/items/report.ts",
    before: "drive: drives.get(message.index) ?? 1",
    after: "drive: 1",
  },
];
