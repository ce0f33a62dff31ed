/** Several processes settle the chunks of each batch at once. Each batch ends exactly once. */
import { hash } from "node:crypto";
import { expect } from "vitest";
import { verifyChain } from "../../src/core/ledger/chain.ts";
import { Fleet } from "./fleet.ts";

const PROCESSES = 4;
const CHUNKS = 8;
const LANES = 40;

export async function checkEndings(batches: number): Promise<void> {
  const fleet = await Fleet.start(PROCESSES, { writes: false });
  try {
    const share = batches / PROCESSES;
    const submitted = await Promise.all(
      fleet.members.map((member, at) =>
        member.submit(
          Array.from({ length: share }, (_, n) => ({
            pipeline: "owned",
            lane: `lane-${(at * share + n) % LANES}`,
            items: CHUNKS,
          })),
        ),
      ),
    );
    const ids = submitted.flat();
    for (const id of ids) {
      const ended = await (await fleet.engine.get(id)).wait();
      expect(ended).toMatchObject({
        state: "succeeded",
        counts: { succeeded: CHUNKS, pending: 0 },
      });
    }
    await fleet.close();
    const records = await fleet.readRecords();
    const endings = records.filter(({ type }) => type === "batch.ended");
    expect(endings).toHaveLength(batches);
    expect(new Set(endings.map(({ batch }) => batch))).toEqual(new Set(ids));
    expect(new Set(endings.map(({ data }) => data["drive"]))).toEqual(new Set([1]));
    expect(records.filter(({ type }) => type === "step.ended")).toHaveLength(batches);
    await checkSharing(fleet, ids);
    await checkChains(fleet, ids.slice(0, 100));
  } finally {
    await fleet.dispose();
  }
}

/** If one process had done everything, there was no race. */
async function checkSharing({ store }: Fleet, ids: readonly string[]): Promise<void> {
  let shared = 0;
  const page = { step: 0, afterItem: -1, limit: CHUNKS, sinceDrive: 1 };
  for (const id of ids.slice(0, 200)) {
    const results = await store.readResults(id, page);
    expect(results).toHaveLength(CHUNKS);
    if (new Set(results.map(({ value }) => value)).size > 1) shared++;
  }
  expect(shared).toBeGreaterThan(0);
}

async function checkChains({ store }: Fleet, ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    const records = await store.readRecords(id, 0, 1_000);
    expect(verifyChain(records, (text) => hash("sha256", text)).kind).toBe("intact");
  }
}
