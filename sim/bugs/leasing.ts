/** Bugs of leases and fences: which worker may run a chunk, until when, and whose reports count. */
import type { Bug } from "./bug.ts";

const SETTLING = "src/adapters/memory/settling.ts";
const LEASING = "src/adapters/memory/leasing.ts";
const SWEEPING = "src/adapters/memory/sweeping.ts";
const STEP_WORKER = "src/runtime/leasing/step-worker.ts";

export const leasingBugs: readonly Bug[] = [
  {
    name: "report-ignores-fence",
    what: "The store accepts a report from a worker that lost its lease on a chunk that another one holds.",
    peers: ["bull#308", "solid_queue#761"],
    file: SETTLING,
    before: "const held = this.#findHeld(report);",
    after: `const { batch, step, chunk } = report;
      const current = this.#state.batches.get(batch)?.steps[step]?.chunks[chunk]?.fence ?? 0;
      const held = this.#findHeld({ ...report, fence: current });`,
    rare: true,
  },
  {
    name: "renewal-ignores-fence",
    what: "A worker renews a lease that another one has taken since, and believes that it still holds it.",
    peers: ["oban#1488"],
    file: SETTLING,
    before: `    const lost = leases.filter((lease) => {
      const held = this.#findHeld(lease);`,
    after: `    const lost = leases.filter((lease) => {
      const { batch, step, chunk } = lease;
      const current = this.#state.batches.get(batch)?.steps[step]?.chunks[chunk]?.fence ?? 0;
      const held = this.#findHeld({ ...lease, fence: current });`,
    rare: true,
  },
  {
    name: "renewal-not-written",
    what: "The store answers a renewal without writing it: the lease runs out under a live worker.",
    peers: ["oban#1141", "hexpm#1825"],
    file: SETTLING,
    before: "held.chunk.leaseUntil = until;",
    after: "void until;",
  },
  {
    name: "lease-keeps-fence",
    what: "A chunk that was taken back is leased again under its old fence, so the old holder's reports count too.",
    peers: ["oban#1141", "bull#308"],
    file: LEASING,
    before: `        chunk.fence++;
        chunk.worker`,
    after: `        chunk.fence = 1;
        chunk.worker`,
  },
  {
    name: "report-after-the-sweep",
    what: "Only the fence is compared: a report on a chunk that was taken back or settled counts.",
    peers: ["river#1302", "term-llm#918"],
    file: SETTLING,
    before: 'return chunk.state === "leased" && chunk.fence === ref.fence',
    after: "return chunk.fence === ref.fence",
    rare: true,
  },
  {
    name: "expired-lease-stolen",
    what: "The next worker gets a lease that ran out, without a record of the loss.",
    peers: ["activepieces#15130", "taskiq-aio-pika#35"],
    file: LEASING,
    before: '.filter((chunk) => chunk.state === "waiting" && chunk.dueAt <= now)',
    after: `.filter(
      ({ state, dueAt, leaseUntil }) =>
        (state === "waiting" && dueAt <= now) || (state === "leased" && leaseUntil <= now),
    )`,
    also: [
      {
        file: SWEEPING,
        before:
          '.filter(({ chunk }) => chunk.state === "leased" && chunk.leaseUntil <= now - graceMs)',
        after: `.filter(({ batch }) => batch.cancel !== null)
      .filter(({ chunk }) => chunk.state === "leased" && chunk.leaseUntil <= now - graceMs)`,
      },
    ],
    rare: true,
  },
  {
    name: "lease-before-its-turn",
    what: "Chunks of a batch are leased while another batch holds its lane.",
    peers: ["plines#44"],
    file: LEASING,
    before: 'return batch.state === "running" && batch.cancel === null',
    after: 'return (batch.state === "running" || batch.state === "ready") && batch.cancel === null',
  },
  {
    name: "lease-of-another-step",
    what: "The workers of one step get chunks of another.",
    file: LEASING,
    before: "        batch.step === request.step &&\n",
    after: "",
  },
  {
    name: "lease-of-another-version",
    what: "New code gets the batches of an old version.",
    file: LEASING,
    before: "        request.versions.includes(batch.submission.version) &&\n",
    after: "",
    rare: true,
  },
  {
    name: "own-lease-not-watched",
    what: "A worker does not check its own clock, and starts items on a lease that has run out.",
    peers: ["bull#412", "kombu#337"],
    file: "src/runtime/running/run-queue.ts",
    before: "if (run.isLostAt(now)) run.skipRest();",
    after: "if (run.lost) run.skipRest();",
    rare: true,
  },
  {
    name: "lease-counted-from-the-answer",
    what: "A lease counts from the arrival of its answer, not from the request.",
    file: STEP_WORKER,
    before: "this.#take(result.leased, asked + settings.leaseMs);",
    after: "this.#take(result.leased, now + settings.leaseMs);",
    rare: true,
  },
  {
    name: "waiting-chunks-not-renewed",
    what: "Only running chunks are renewed: chunks that wait in the worker lose their leases.",
    peers: ["dramatiq_sqs#53", "dramatiq_sqs#59"],
    file: STEP_WORKER,
    before: "return this.#held.filter((run) => !run.lost).map((run) => run.lease);",
    after:
      "return this.#held.filter((run) => !run.lost && run.inFlight > 0).map((run) => run.lease);",
    rare: true,
  },
  {
    name: "lost-lease-is-fatal",
    what: "A report that comes too late stops the whole worker.",
    peers: ["bull#1243", "bullmq#596", "bullmq#1497"],
    file: "src/runtime/chunk/chunk-run.ts",
    before: 'if (result === "lost") this.lose();',
    after: 'if (result === "lost") throw new Error("missing lock");',
  },
];
