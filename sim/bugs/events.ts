/** Bugs of records and of their delivery. */
import type { Bug } from "./bug.ts";

const STREAM_DELIVERY = "src/runtime/delivering/stream-delivery.ts";

export const eventBugs: readonly Bug[] = [
  {
    name: "chain-forked",
    what: "A record names the predecessor of its predecessor.",
    peers: ["ProbOS#1351", "fak#5876"],
    file: "src/adapters/memory/records.ts",
    before: "batch.head = { seq: link.seq, hash: link.hash };",
    after: "batch.head = { seq: link.seq, hash: link.seq === 1 ? link.hash : batch.head.hash };",
  },
  {
    name: "record-number-skipped",
    what: "The numbers of a batch's records have a gap.",
    file: "src/core/ledger/chain.ts",
    before: "const seq = head.seq + 1;\n  const body",
    after: "const seq = head.seq + (head.seq === 2 ? 2 : 1);\n  const body",
  },
  {
    name: "step-end-not-recorded",
    what: "A step ends and no record says so.",
    file: "src/adapters/memory/batch-lifecycle.ts",
    before: "    this.#recordStepEnd(batch);\n",
    after: "",
  },
  {
    name: "position-saved-before-delivery",
    what: "A reader's position is saved before its handler has the record: a crash in between loses it.",
    peers: ["celery#1789", "horizon#1512"],
    file: STREAM_DELIVERY,
    before: "      const end = await this.#handOver(group);\n",
    after: `      await store.savePosition(name, last.position);
      const end = await this.#handOver(group);
`,
    rare: true,
  },
  {
    name: "failed-delivery-counts",
    what: "A record that its subscriber did not take counts as delivered.",
    file: STREAM_DELIVERY,
    before: "        await sleep(clock, decision.delayMs, this.#stop.signal);\n",
    after: '        return { kind: "taken" };\n',
  },
  {
    name: "relay-needs-a-word",
    what: "Records are delivered only when a word of them arrives.",
    peers: ["oban ee1048ab", "bullmq#4479"],
    file: STREAM_DELIVERY,
    before: "if (!moved) await this.#changed.wait(settings.pollMs);",
    after: "if (!moved) await this.#changed.wait(settings.pollMs * 1_000_000);",
    rare: true,
  },
  {
    name: "waiter-never-woken",
    what: "Whoever waits for a batch is told of its records, but not of those in the same look as the first.",
    peers: ["sidekiq#4607"],
    file: "src/runtime/engine/batch-handle.ts",
    before: "        await changed.wait(pollMs);\n",
    after: "        await changed.wait(pollMs * 1_000_000);\n",
    also: [
      {
        file: "src/runtime/engine/record-poller.ts",
        before: "await this.#changed.wait(this.#pollMs);",
        after: "await this.#changed.wait(this.#pollMs * 1_000_000);",
      },
    ],
  },
];
