/** Bugs that use the wrong one of the two clocks. */
import type { Bug } from "./bug.ts";

const SETTLING = "src/adapters/memory/settling.ts";
const SWEEPING = "src/adapters/memory/sweeping.ts";
const TIME_WATCH = "src/runtime/running/timeout-watcher.ts";

export const clockBugs: readonly Bug[] = [
  {
    name: "renewal-on-the-wall-clock",
    what: "A renewed lease uses the wall clock, so it never runs out on the monotonic one.",
    peers: ["dolphinscheduler#12170"],
    file: SETTLING,
    before: "const until = now + leaseMs;",
    after: "const until = this.#clock.wallMs() + leaseMs;",
    rare: true,
  },
  {
    name: "due-on-the-wall-clock",
    what: "An item's next try uses the wall clock, so it never comes on the monotonic one.",
    peers: ["dolphinscheduler#12170", "mlflow#25199"],
    file: SETTLING,
    before: "const effect = decideReport(stored, report, now);",
    after: "const effect = decideReport(stored, report, this.#clock.wallMs());",
  },
  {
    name: "lost-chunk-due-on-the-wall-clock",
    what: "A chunk that was taken back is due on the wall clock, so never on the monotonic one.",
    peers: ["MailFathom#1989"],
    file: SWEEPING,
    before: "decideLoss(stored, now)",
    after: "decideLoss(stored, this.#clock.wallMs())",
  },
  {
    name: "deadline-on-the-other-clock",
    what: "A deadline on the wall clock is compared with the monotonic one.",
    file: SWEEPING,
    before: "    const now = this.#clock.wallMs();\n    const { sealed",
    after: "    const now = this.#clock.monotonicMs();\n    const { sealed",
  },
  {
    name: "leases-on-the-wall-clock",
    what: "All leases use the wall clock: a jump of it ends all of them, or none.",
    peers: ["dolphinscheduler#12170"],
    file: SETTLING,
    before: "const found = leasing.lease(request, now);",
    after: `const leaseMs = request.leaseMs + this.#clock.wallMs() - now;
      const found = leasing.lease({ ...request, leaseMs }, now);`,
    also: [
      {
        file: SETTLING,
        before: "const until = now + leaseMs;",
        after: "const until = this.#clock.wallMs() + leaseMs;",
      },
      {
        file: SWEEPING,
        before: 'chunk.state === "leased" && chunk.leaseUntil <= now - graceMs)',
        after: 'chunk.state === "leased" && chunk.leaseUntil <= this.#clock.wallMs() - graceMs)',
      },
    ],
    rare: true,
  },
  {
    name: "time-limit-on-the-wall-clock",
    what: "A handler's time limit uses its node's wall clock: a jump of it ends healthy handlers.",
    peers: ["mlflow#25199"],
    file: TIME_WATCH,
    before: "    const now = clock.monotonicMs();\n    for (const slot of this.#slots) {\n",
    after:
      "    const now = clock.wallMs() - this.#wallAheadMs;\n    for (const slot of this.#slots) {\n",
    also: [
      {
        file: TIME_WATCH,
        before: "    this.#parts = parts;\n",
        after: `    this.#parts = parts;
    this.#wallAheadMs = parts.clock.wallMs() - parts.clock.monotonicMs();
`,
      },
      {
        file: TIME_WATCH,
        before: "  readonly #parts: TimeoutWatcherParts;\n",
        after: "  readonly #parts: TimeoutWatcherParts;\n  readonly #wallAheadMs: number;\n",
      },
    ],
    rare: true,
  },
];
