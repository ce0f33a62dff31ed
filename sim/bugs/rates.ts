/** Bugs of rates, paces and closed keys. */
import type { Bug } from "./bug.ts";

const TOKENS = "src/core/limits/token-bucket.ts";
const PACE = "src/core/limits/pace.ts";
const BUCKET = "src/core/limits/bucket.ts";
const PURSE = "src/runtime/limits/token-balance.ts";
const STEP_LIMITS = "src/runtime/limits/step-limits.ts";
const ITEM_LOOP = "src/runtime/running/item-loop.ts";
const TOKEN_BUCKETS = "src/adapters/memory/token-buckets.ts";

export const rateBugs: readonly Bug[] = [
  {
    name: "token-used-before-its-date",
    what: "A token that becomes valid later is used at once.",
    file: PURSE,
    before: "const from = answeredAt + at;",
    after: "const from = answeredAt;",
  },
  {
    name: "token-good-from-the-question",
    what: "A token is used too early, because its date counts from the request.",
    file: PURSE,
    before: "const from = answeredAt + at;",
    after: "const from = askedAt + at;",
  },
  {
    name: "token-ends-after-the-answer",
    what: "A token whose answer came late is used after its end.",
    file: PURSE,
    before: "const until = askedAt + at + usableMs;",
    after: "const until = answeredAt + at + usableMs;",
    rare: true,
  },
  {
    name: "late-use-not-paid-for",
    what: "A token counts as used at its date, but is used later.",
    file: TOKENS,
    before: "const first = Math.max(paid, nowMs + usableMs);",
    after: "const first = Math.max(paid, nowMs);",
  },
  {
    name: "burst-one-too-many",
    what: "One token more than the burst is available at once.",
    file: TOKENS,
    before: "const aheadMs = (rate.burst - ask.cost) * tokenMs;",
    after: "const aheadMs = (rate.burst + 1 - ask.cost) * tokenMs;",
  },
  {
    name: "every-start-costs-one-token",
    what: "A start that takes several tokens pays for one.",
    file: TOKENS,
    before: "const startMs = ask.cost * tokenMs;",
    after: "const startMs = tokenMs;",
  },
  {
    name: "retries-take-no-token",
    what: "An item's second try starts without a token.",
    file: STEP_LIMITS,
    before: "    if (step.rate === null) return null;\n",
    after: "    if (step.rate === null || run.countAttempts(index) > 0) return null;\n",
  },
  {
    name: "guarded-runs-take-no-token",
    what: "Items that run guarded after a loss start whatever their limits say.",
    file: STEP_LIMITS,
    before: "    if (!this.#applyTo(run)) return { indexes, later: [],",
    after: "    if (indexes.length > 0) return { indexes, later: [],",
  },
  {
    name: "lost-tokens-are-used",
    what: "The next item uses a token that was not used in time.",
    file: PURSE,
    before: "    while ((this.#tokens[0]?.until ?? now + 1) <= now) this.#tokens.shift();\n",
    after: "    void now;\n",
  },
  {
    name: "late-check-starts-anyway",
    what: "An item starts although its check took longer than its token was valid.",
    file: ITEM_LOOP,
    before:
      '    if (this.#isLate(slot, run)) handlerCall.stop(new StopSignal("its right to start has expired"));\n',
    after: "",
    rare: true,
  },
  {
    name: "late-check-in-a-guarded-run",
    what: "A guarded item starts although its check took longer than its token was valid.",
    file: ITEM_LOOP,
    before: "      slot.startUntil = until;\n",
    after: "",
    rare: true,
  },
  {
    name: "slow-check-never-in-time",
    what: "An item with a slow check never starts, because each of its tokens is lost by then.",
    file: "src/runtime/limits/limiter.ts",
    before: "    if (now < until) return false;\n    this.#remember(now - since);\n",
    after: "    if (now < until) return false;\n",
    rare: true,
  },
  {
    name: "free-slot-draws-nothing",
    what: "After a handler was abandoned, its free slot draws no token for waiting items, and nothing looks again.",
    file: ITEM_LOOP,
    before: "    if (this.#slots.size < controller.slots) rights.request();\n",
    after: "",
    also: [
      {
        file: "src/runtime/limits/limiter.ts",
        before: "      nextAt = Math.min(nextAt, now + LOOK_MS);\n",
        after: "",
      },
    ],
  },
  {
    name: "dropped-items-counted-on",
    what: "A worker waits for items that it no longer holds, and leases nothing.",
    file: "src/runtime/limits/limiter.ts",
    before: "    this.#soon = this.#runs.size === 0 ? 0 : Math.max(0, this.#soon - run.waiting);\n",
    after: "",
    also: [
      {
        // The next look would count afresh.
        file: "src/runtime/limits/limiter.ts",
        before: "    this.#soon = 0;\n    for (const limitGroup",
        after: "    for (const limitGroup",
      },
    ],
  },
  {
    name: "keys-mixed-up",
    what: "Items draw tokens from the key of the first item that waited.",
    file: "src/runtime/limits/waiting-items.ts",
    before: "  return `${cost} ${bucket} ${key}`;\n",
    after: "  return `${cost} ${bucket} ${key.length}`;\n",
    rare: true,
  },
  {
    name: "buckets-on-the-wall-clock",
    what: "Buckets fill by the store's time of day: changing that clock fills them all.",
    file: TOKEN_BUCKETS,
    before: "    const time = { monotonicMs: this.#clock.monotonicMs(), wallMs:",
    after: "    const time = { monotonicMs: this.#clock.wallMs() - 1.76e12, wallMs:",
  },
  {
    name: "closing-ignored-by-those-who-hold-tokens",
    what: "A worker that is told to close a key still starts items for which it holds tokens.",
    file: PURSE,
    before: "    this.#tokens = [];\n    this.#openUntil = 0;\n",
    after: "",
    rare: true,
  },
  {
    name: "closing-not-stored",
    what: "Only the worker that was told to close a key stops using it.",
    file: STEP_LIMITS,
    before: "    store.closeBucket({ bucket, key }, forMs).catch(onFatal);\n",
    after: "    void [store, onFatal];\n",
    rare: true,
  },
  {
    name: "closing-forgotten-by-a-sweep",
    what: "A closed bucket counts as idle, and the sweep deletes it with its closing.",
    file: BUCKET,
    before: "  return Math.max(spent, findClosingEnd(state));\n",
    after: "  return spent;\n",
    rare: true,
  },
  {
    name: "shorter-closing-counts",
    what: "A second closing opens a key before the end of the first.",
    file: TOKEN_BUCKETS,
    before: "Math.max(before.closedUntil, this.#clock.monotonicMs() + forMs)",
    after: "this.#clock.monotonicMs() + forMs",
    rare: true,
  },
  {
    name: "closed-key-grants",
    what: "Grants do not check whether a key is closed.",
    file: BUCKET,
    before: "if (state.closedUntil > now) return refuse",
    after: "if (state.closedUntil > now + 1e15) return refuse",
  },
  {
    name: "pace-counted-from-the-grant",
    what: "A start of a pace counts from its grant, but takes place later.",
    file: PACE,
    before: "addPortion(counting, granted, nowMs + usableMs, everyMs)",
    after: "addPortion(counting, granted, nowMs, everyMs)",
  },
  {
    name: "pace-forgotten-by-a-sweep",
    what: "The sweep forgets starts of a pace before their window is over.",
    file: PACE,
    before: "last === undefined ? 0 : last.until + everyMs)",
    after: "last === undefined ? 0 : last.until)",
  },
  {
    name: "smooth-pace-begins-with-two",
    what: "A smooth pace starts two items at once.",
    file: PACE,
    before: "perSecond: (items * 1_000) / everyMs, burst: 1 }",
    after: "perSecond: (items * 1_000) / everyMs, burst: 2 }",
  },
  {
    name: "every-chunk-has-its-own-pace",
    what: "A pace applies to each chunk, not to the whole batch.",
    file: STEP_LIMITS,
    before: '  return { ...ref, spec: { kind: "pace", ...pace }, cost: 1 };\n',
    after:
      '  return { ...ref, key: `${lease.chunk}`, spec: { kind: "pace", ...pace }, cost: 1 };\n',
  },
  {
    name: "quiet-hours-ignored",
    what: "Paced items start in quiet hours too.",
    file: BUCKET,
    before: 'if (quietMs > 0) return refuse(state, "quiet", quietMs);',
    after: 'if (quietMs > 1e15) return refuse(state, "quiet", quietMs);',
  },
  {
    name: "quiet-hours-in-utc",
    what: "Quiet hours are read as UTC, whatever their zone is.",
    file: "src/core/limits/quiet-hours.ts",
    before: "    timeZone,\n    hourCycle",
    after: '    timeZone: "UTC",\n    hourCycle',
  },
  {
    name: "wait-for-a-limit-ignored",
    what: "A chunk that waits for a limit is leased again at once, over and over.",
    file: "src/core/items/report.ts",
    before: "const restUntil = nowMs + (limitWait?.inMs ?? 0);",
    after: "const restUntil = nowMs;",
    rare: true,
  },
  {
    name: "outage-closes-nothing",
    what: "A batch meets an outage, and its other items start nevertheless.",
    file: "src/adapters/memory/token-buckets.ts",
    before: "planned - pending, forMs, now);",
    after: "planned - pending, 0 * forMs, now);",
    rare: true,
  },
  {
    name: "outage-counts-as-a-try",
    what: "An item that meets an outage has failed.",
    file: "src/runtime/running/outcome-classifier.ts",
    before: "if (facts.isOutage && run.pace !== null) {",
    after: "if (facts.isOutage && run.pace === null) {",
    also: [
      {
        file: "src/runtime/running/outcome-classifier.ts",
        before: "return run.defer(index, readKeyOf(step, item), run.pace.outageMs);",
        after: "return run.defer(index, readKeyOf(step, item), 0);",
      },
    ],
    rare: true,
  },
];
