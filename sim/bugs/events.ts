/** Bugs of records and of their delivery. */
import type { Bug } from "./bug.ts";

const STREAM_DELIVERY = "src/runtime/delivering/stream-delivery.ts";

export const eventBugs: readonly Bug[] = [
  {
    name: "chain-forked",
    what: "A record names the record before its predecessor.",
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
    what: "A step ends without a record.",
    file: "src/adapters/memory/batch-lifecycle.ts",
    before: "    this.#recordStepEnd(batch);\n",
    after: "",
  },
  {
    name: "position-saved-before-delivery",
    what: "A reader's position is saved before its handler gets the record: a crash in between loses it.",
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
    what: "A record that its subscriber refused counts as delivered.",
    file: STREAM_DELIVERY,
    before: "        await sleep(clock, decision.delayMs, this.#stop.signal);\n",
    after: '        return { kind: "taken" };\n',
  },
  {
    name: "delivery-needs-a-notification",
    what: "Records are delivered only when a notification arrives.",
    peers: ["oban ee1048ab", "bullmq#4479"],
    file: STREAM_DELIVERY,
    before: "if (!moved) await this.#changed.wait(settings.pollMs);",
    after: "if (!moved) await this.#changed.wait(settings.pollMs * 1_000_000);",
    rare: true,
  },
  {
    name: "waiter-never-woken",
    what: "A caller that waits for a batch gets the first record of a poll, but not the others of that poll.",
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
