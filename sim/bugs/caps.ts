/** Bugs of caps: handlers that run at the same time over all workers. */
import type { Bug } from "./bug.ts";

const CAPS = "src/core/limits/caps.ts";
const STORE = "src/adapters/memory/concurrency-permits.ts";
const PERMITS = "src/runtime/limits/slot-permits.ts";
const ITEM_LOOP = "src/runtime/running/item-loop.ts";
const QUEUE = "src/runtime/running/run-queue.ts";

export const capBugs: readonly Bug[] = [
  {
    name: "permit-not-asked-for",
    what: "An item starts, whatever its caps say.",
    file: QUEUE,
    before: "if (!areCapped || this.#permits.mayStart(run, now)) return at;",
    after: "if (!areCapped || now >= 0) return at;",
  },
  {
    name: "permits-of-others-not-summed",
    what: "Of a cap's permits that other workers hold, only the largest share counts, not the sum.",
    file: STORE,
    before: ".reduce((sum, one) => sum + readSlots(one, now), 0);",
    after: ".reduce((most, one) => Math.max(most, readSlots(one, now)), 0);",
    rare: true,
  },
  {
    name: "permit-not-renewed",
    what: "A permit runs out although its worker lives and renews its leases.",
    file: STORE,
    before: "slots: renewSlots(readSlots(row, now), room), until });",
    after: "slots: renewSlots(row.slots, room), until: row.until || until });",
    rare: true,
  },
  {
    name: "renewal-takes-the-whole-cap",
    what: "A worker that renews and holds no permit gets the whole cap, whatever other workers hold.",
    file: STORE,
    before: "      const room = this.#room(row.scope, cap, worker, now);\n      this.#put",
    after: "      const room = cap;\n      this.#put",
    rare: true,
  },
  {
    name: "lower-cap-ignored",
    what: "A worker that holds permits keeps them when an operator lowers the cap.",
    file: CAPS,
    before: "return own === 0 ? room : Math.min(own, room);",
    after: "return own === 0 ? room : own;",
    also: [
      {
        file: CAPS,
        before: "return Math.max(Math.min(own, room), Math.min(wanted, room));",
        after: "return Math.max(own, Math.min(wanted, room));",
      },
    ],
    rare: true,
  },
  {
    name: "declared-cap-above-the-operators",
    what: "Where a pipeline declares a cap, an operator's cap does not count.",
    file: CAPS,
    before: "const cap = findOperators(scope, names[scope]) ?? declared;",
    after: "const cap = declared ?? findOperators(scope, names[scope]);",
  },
  {
    name: "permits-in-use-are-given-up",
    what: "A worker gives up the permits of running items, and keeps those of items that are to start.",
    file: PERMITS,
    before: "return Math.max(running, Math.min(user.countSlots(), running + startable));",
    after: "return Math.min(user.countSlots(), startable);",
  },
  {
    name: "given-up-with-the-answer",
    what: "A worker uses permits that it gives up until the store's answer arrives, when another worker may have them.",
    file: PERMITS,
    before:
      "if (held !== undefined && held.slots > slots) this.#held.set(scope, { ...held, slots });",
    after: "void [held, slots];",
    rare: true,
  },
  {
    name: "last-answer-counts",
    what: "Of two answers the one that arrives last counts, even if it is the older one.",
    file: PERMITS,
    before: "const isOlder = permits.seq > 0 && permits.seq < this.#answer.permits.seq;",
    after: "const isOlder = permits.seq < 0;",
  },
  {
    name: "permit-changes-not-counted",
    what: "The store does not count a request that lowers permits, so an older answer replaces its answer.",
    file: STORE,
    before: "if (JSON.stringify(this.#listOf(worker)) !== before) {",
    after: "if (JSON.stringify(this.#listOf(worker)).length > before.length) {",
    rare: true,
  },
  {
    name: "released-permits-back-after-a-failure",
    what: "A request that releases permits fails after its commit, and the worker uses them again.",
    file: PERMITS,
    before: "if (releasing !== undefined) releasing.failedAt = this.#asked;",
    after: "if (releasing !== undefined) this.#releasing.delete(question);\n    this.#apply();",
    rare: true,
  },
  {
    name: "batch-of-one-chunk-without-permits",
    what: "A batch that runs where it was submitted needs no permits.",
    file: "src/runtime/leasing/lease-request.ts",
    before: "permits.grant(question, permitted);",
    after: "void [question, permitted];",
    rare: true,
  },
  {
    name: "guarded-waves-above-the-cap",
    what: "Items that run guarded after a loss start whatever their caps say.",
    file: PERMITS,
    before: "const room = Math.min(wanted, this.countRoom(run, now));",
    after: "const room = Math.min(wanted, now + 1e9);",
    also: [
      {
        file: ITEM_LOOP,
        before: "if (permits.areNeeded && !permits.mayStartReserved(run, now)) return -1;",
        after: "void [permits, now];",
      },
    ],
  },
  {
    name: "room-of-a-wave-not-kept",
    what: "While the store writes the starts of a wave, other items take its permits, and the wave starts nevertheless.",
    file: PERMITS,
    before: "for (const held of this.#listHeld(run.facts.scopes)) held.active += room;",
    after: "",
    also: [
      {
        file: PERMITS,
        before: "    for (const [run, slots] of this.#reserved) count(run, slots);\n",
        after: "",
      },
      {
        file: ITEM_LOOP,
        before: "if (permits.areNeeded && !permits.mayStartReserved(run, now)) return -1;",
        after: "void [permits, now];",
      },
    ],
    rare: true,
  },
  {
    name: "guarded-runs-without-room-come-back-at-once",
    what: "A guarded run whose cap is full is given back and leased again at once, over and over.",
    file: "src/runtime/limits/permit-wait.ts",
    before: "if (room > 0 || now >= until || isOver()) return room;",
    after: "if (room > 0 || now >= until - 1_000 || isOver()) return room;",
  },
  {
    name: "limited-items-above-the-cap",
    what: "An item that has a token starts, whatever its caps say.",
    file: "src/runtime/leasing/step-worker.ts",
    before: "mayStart: (run, now) => parts.permits.mayStart(run, now),",
    after: "mayStart: () => true,",
  },
  {
    name: "retries-without-a-permit",
    what: "The second try of an item needs no permit.",
    file: QUEUE,
    before: "if (!areCapped || this.#permits.mayStart(run, now)) return at;",
    after:
      "if (!areCapped || run.lease.histories.length > 0 || this.#permits.mayStart(run, now)) return at;",
  },
  {
    name: "calls-for-chunks-not-counted",
    what: "A call for a whole chunk takes no slot.",
    file: ITEM_LOOP,
    before: "if (permits.areNeeded) permits.start(run);",
    after: "if (permits.areNeeded && step.processChunk === undefined) permits.start(run);",
  },
  {
    name: "only-the-batch-is-counted",
    what: "Handlers count against the cap of their batch, but not of their lane or pipeline.",
    file: PERMITS,
    before:
      "else if (!this.#capNotBinding)\n      for (const held of this.#listHeld(run.facts.scopes)) held.active++;",
    after: "else for (const held of this.#listHeld(run.facts.scopes).slice(0, 1)) held.active++;",
  },
];
