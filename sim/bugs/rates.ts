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
    what: "A token that is good in a while is used at once.",
    file: PURSE,
    before: "const from = answeredAt + at;",
    after: "const from = answeredAt;",
  },
  {
    name: "token-good-from-the-question",
    what: "A token is used before its date, as that is counted from the question.",
    file: PURSE,
    before: "const from = answeredAt + at;",
    after: "const from = askedAt + at;",
  },
  {
    name: "token-ends-after-the-answer",
    what: "A token whose answer took long is used after its end.",
    file: PURSE,
    before: "const until = askedAt + at + usableMs;",
    after: "const until = answeredAt + at + usableMs;",
    rare: true,
  },
  {
    name: "late-use-not-paid-for",
    what: "A token counts as used at its date, and is used later than that.",
    file: TOKENS,
    before: "const first = Math.max(paid, nowMs + usableMs);",
    after: "const first = Math.max(paid, nowMs);",
  },
  {
    name: "burst-one-too-many",
    what: "One token more than the burst is there at once.",
    file: TOKENS,
    before: "const aheadMs = (rate.burst - ask.cost) * tokenMs;",
    after: "const aheadMs = (rate.burst + 1 - ask.cost) * tokenMs;",
  },
  {
    name: "every-start-costs-one-token",
    what: "A start that takes several tokens is charged for one.",
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
    what: "What runs guarded after a loss starts whatever its limits say.",
    file: STEP_LIMITS,
    before: "    if (!this.#applyTo(run)) return { indexes, later: [],",
    after: "    if (indexes.length > 0) return { indexes, later: [],",
  },
  {
    name: "lost-tokens-are-used",
    what: "A token that nobody used in time is used by whoever comes next.",
    file: PURSE,
    before: "    while ((this.#tokens[0]?.until ?? now + 1) <= now) this.#tokens.shift();\n",
    after: "    void now;\n",
  },
  {
    name: "late-check-starts-all-the-same",
    what: "An item that was looked at for longer than its token was good for starts.",
    file: ITEM_LOOP,
    before:
      '    if (this.#isLate(slot, run)) handlerCall.stop(new StopSignal("its right to start has run out"));\n',
    after: "",
    rare: true,
  },
  {
    name: "late-check-in-a-guarded-run",
    what: "The same, of items that run guarded.",
    file: ITEM_LOOP,
    before: "      slot.startUntil = until;\n",
    after: "",
    rare: true,
  },
  {
    name: "slow-check-never-in-time",
    what: "An item that is looked at for long never starts, as each of its tokens is lost by then.",
    file: "src/runtime/limits/limiter.ts",
    before: "    if (now < until) return false;\n    this.#remember(now - since);\n",
    after: "    if (now < until) return false;\n",
    rare: true,
  },
  {
    name: "free-slot-draws-nothing",
    what: "After a handler that was given up nobody draws for what waits, and nobody looks again.",
    file: ITEM_LOOP,
    before: "    if (this.#slots.size < controller.slots) rights.ask();\n",
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
    what: "A worker waits for the turn of items that are not its own any more, and leases nothing.",
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
    what: "Items draw from the key of the first one that waited.",
    file: "src/runtime/limits/waiting-items.ts",
    before: "  return `${cost} ${bucket} ${key}`;\n",
    after: "  return `${cost} ${bucket} ${key.length}`;\n",
    rare: true,
  },
  {
    name: "buckets-on-the-wall-clock",
    what: "Buckets are filled by the store's time of day: somebody who sets it fills them all.",
    file: TOKEN_BUCKETS,
    before: "    const time = { monotonicMs: this.#clock.monotonicMs(), wallMs:",
    after: "    const time = { monotonicMs: this.#clock.wallMs() - 1.76e12, wallMs:",
  },
  {
    name: "closing-ignored-by-those-who-hold-tokens",
    what: "Who is told to leave a key alone starts what it holds tokens for.",
    file: PURSE,
    before: "    this.#tokens = [];\n    this.#openUntil = 0;\n",
    after: "",
    rare: true,
  },
  {
    name: "closing-not-stored",
    what: "Only the worker that was told to leave a key alone does.",
    file: STEP_LIMITS,
    before: "    store.closeBucket({ bucket, key }, forMs).catch(onFatal);\n",
    after: "    void [store, onFatal];\n",
    rare: true,
  },
  {
    name: "closing-forgotten-by-a-sweep",
    what: "A bucket that is closed counts as idle, and is forgotten with its closing.",
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
    what: "Nobody looks whether a key is closed.",
    file: BUCKET,
    before: "if (state.closedUntil > now) return refuse",
    after: "if (state.closedUntil > now + 1e15) return refuse",
  },
  {
    name: "pace-counted-from-the-grant",
    what: "A start of a pace counts from its grant on, and takes place later.",
    file: PACE,
    before: "addPortion(counting, granted, nowMs + usableMs, everyMs)",
    after: "addPortion(counting, granted, nowMs, everyMs)",
  },
  {
    name: "pace-forgotten-by-a-sweep",
    what: "What has started of a pace is forgotten before its time is over.",
    file: PACE,
    before: "last === undefined ? 0 : last.until + everyMs)",
    after: "last === undefined ? 0 : last.until)",
  },
  {
    name: "smooth-pace-begins-with-two",
    what: "Of a smooth pace two items start at once.",
    file: PACE,
    before: "perSecond: (items * 1_000) / everyMs, burst: 1 }",
    after: "perSecond: (items * 1_000) / everyMs, burst: 2 }",
  },
  {
    name: "every-chunk-has-its-own-pace",
    what: "A pace is kept within each chunk, and not within the batch.",
    file: STEP_LIMITS,
    before: '  return { ...ref, spec: { kind: "pace", ...pace }, cost: 1 };\n',
    after:
      '  return { ...ref, key: `${lease.chunk}`, spec: { kind: "pace", ...pace }, cost: 1 };\n',
  },
  {
    name: "quiet-hours-ignored",
    what: "What has a pace starts also in quiet hours.",
    file: BUCKET,
    before: 'if (quietMs > 0) return refuse(state, "quiet", quietMs);',
    after: 'if (quietMs > 1e15) return refuse(state, "quiet", quietMs);',
  },
  {
    name: "quiet-hours-in-utc",
    what: "Quiet hours are read as if everybody lived in Greenwich.",
    file: "src/core/limits/quiet-hours.ts",
    before: "    timeZone,\n    hourCycle",
    after: '    timeZone: "UTC",\n    hourCycle',
  },
  {
    name: "rest-ignored",
    what: "A chunk that waits for a limit is leased again at once, over and over.",
    file: "src/core/items/report.ts",
    before: "const restUntil = nowMs + (limitWait?.inMs ?? 0);",
    after: "const restUntil = nowMs;",
    rare: true,
  },
  {
    name: "outage-closes-nothing",
    what: "What a batch goes out through is away, and its other items start all the same.",
    file: "src/adapters/memory/token-buckets.ts",
    before: "planned - pending, forMs, now);",
    after: "planned - pending, 0 * forMs, now);",
    rare: true,
  },
  {
    name: "outage-counts-as-a-try",
    what: "An item that found nobody at the other end has failed.",
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
