/** Bugs in finding the item that kills its worker. */
import type { Bug } from "./bug.ts";

const POISON = "src/core/items/poison.ts";
const LOSS = "src/core/items/loss.ts";

export const poisonBugs: readonly Bug[] = [
  {
    name: "death-not-charged",
    what: "A death is charged to no item: a poison item kills worker after worker.",
    peers: ["activepieces#15130", "taskiq-aio-pika#35"],
    file: POISON,
    before: "const charged = Math.max(deaths, 1) + 1;",
    after: "const charged = Math.max(deaths, 1);",
  },
  {
    name: "one-death-too-few",
    what: "An item is convicted at its second death.",
    file: POISON,
    before: "convicted: charged >= DEATHS_MAX }",
    after: "convicted: charged >= DEATHS_MAX - 1 }",
  },
  {
    name: "waiting-items-blamed",
    what: "A loss is charged to every item with a row, even to items that were not running.",
    peers: ["java-dynamic-sqs-listener#369"],
    file: LOSS,
    before: "const started = stored.tracked.filter((item) => item.started);",
    after: "const started = stored.tracked.filter((item) => !item.dead);",
  },
  {
    name: "never-convicted",
    what: "An item that ran alone at the third death is tried again.",
    peers: ["iris-mpc#2290"],
    file: POISON,
    before: "convicted: charged >= DEATHS_MAX }",
    after: "convicted: charged > DEATHS_MAX + 1_000 }",
    rare: true,
  },
  {
    name: "guarded-run-announces-nothing",
    what: "A guarded run does not write its starts.",
    file: "src/runtime/chunk/chunk-run.ts",
    before: "starting: this.#listStarting(),",
    after: "starting: [],",
  },
  {
    name: "lost-chunk-runs-in-bulk",
    what: "A chunk whose lease was lost runs in bulk as before, so the item that kills is never found.",
    peers: ["bullmq#2979"],
    file: "src/adapters/memory/sweeping.ts",
    before: "    chunk.guarded = true;\n",
    after: "",
    rare: true,
  },
  {
    name: "suspect-has-company",
    what: "A suspect runs while the same process runs other items, which may be the ones that kill.",
    file: "src/runtime/running/exclusive-run.ts",
    before: "      await Promise.all(members.map((member) => member.pause()));\n",
    after: "",
  },
  {
    name: "suspect-runs-with-others",
    what: "Suspects run together with all other items, so no death belongs to one of them alone.",
    file: POISON,
    before: "return deaths >= DEATHS_OF_SUSPECT;",
    after: "return deaths > DEATHS_MAX;",
  },
];
