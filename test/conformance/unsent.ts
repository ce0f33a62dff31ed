/**
 * Unsent items: one message for each item that an early end left undone, however many there are.
 */
import { expect } from "vitest";
import type { Submission } from "../../src/ports/store/conductor-store.ts";
import { type Rig, type Rule, steps } from "./rig.ts";

const TELLS: Partial<Submission> = { settings: steps({ unsentTopic: "unsent" }) };

/** The messages after this number of sweeps. */
async function readUnsent(rig: Rig, sweeps = 1): Promise<{ id: string; body: unknown }[]> {
  for (let n = 0; n < sweeps; n++) await rig.sweep();
  const messages = await rig.store.readMessages("unsent", 0, 10_000);
  return messages.map(({ id, body }) => ({ id, body: JSON.parse(body) as unknown }));
}

/** A batch that owns its items. Each item is its own number. */
async function run(rig: Rig, sizes: readonly number[], changes = TELLS): Promise<string> {
  const id = await rig.slicing(changes);
  let item = 0;
  const chunks = sizes.map((items) => {
    const lines = Array.from({ length: items }, () => `{"n":${item++}}`);
    const manifest = new TextEncoder().encode(lines.join("\n"));
    return { items, locator: null, manifest, keys: null };
  });
  await rig.plan(id, chunks);
  await rig.finishSlicing(id, sizes.length);
  return id;
}

export function describeUnsent(rule: Rule): void {
  for (const { how, stop } of [
    { how: "cancelled", stop: (rig: Rig, id: string) => rig.cancel(id, "now") },
    {
      how: "failed",
      stop: (rig: Rig, id: string) => rig.store.fail(id, { code: "STOP", message: "enough" }),
    },
  ]) {
    rule(
      `each item that had not run when the batch was ${how} gets one message`,
      async ({ rig }) => {
        const id = await run(rig, [3, 2]);
        await rig.report(await rig.leaseOne(), { succeeded: [0], failed: [1] });
        await stop(rig, id);
        expect(await rig.state(id)).toBe(how);
        const told = await readUnsent(rig);
        expect(told.map((one) => one.id)).toEqual(
          [2, 3, 4].map((item) => `${id}/0/${item}/1/unsent`),
        );
        expect(told[0]?.body).toMatchObject({ batch: id, step: "import", item: 2 });
        expect(told[0]?.body).toHaveProperty("value");
        expect(await readUnsent(rig, 3)).toHaveLength(3);
      },
    );
  }

  rule("an expired batch writes a message for each item that did not run", async ({ rig }) => {
    const id = await run(rig, [2], { ...TELLS, deadlineAt: rig.clock.wallMs() + 100 });
    rig.clock.advance(100);
    expect((await rig.sweep()).ended).toEqual([id]);
    expect(await readUnsent(rig)).toHaveLength(2);
  });

  rule(
    "no message is written by a batch that ended normally, or without an unsent topic",
    async ({ rig }) => {
      await run(rig, [1]);
      await rig.report(await rig.leaseOne(), { failed: [0] });
      await rig.cancel(await rig.running([3]), "now");
      await rig.store.fail(await rig.slicing(TELLS), { code: "STOP", message: "m" });
      expect(await readUnsent(rig, 2)).toEqual([]);
    },
  );

  rule("any number of items get one message each, a few in each commit", async ({ rig }) => {
    const id = await run(rig, [1_500, 700, 300]);
    await rig.report(await rig.leaseOne(), { succeeded: [7, 1_200] });
    await rig.cancel(id, "now");
    expect(await readUnsent(rig)).toHaveLength(1_000);
    expect(await readUnsent(rig)).toHaveLength(2_000);
    const told = await readUnsent(rig, 2);
    expect(new Set(told.map((one) => one.id)).size).toBe(2_498);
    expect(told).toHaveLength(2_498);
  });

  rule(
    "a revived batch writes no more unsent messages until it is stopped again",
    async ({ rig }) => {
      const id = await run(rig, [2]);
      await rig.cancel(id, "now");
      await rig.redrive(id, { withCancelled: true });
      expect(await readUnsent(rig)).toEqual([]);
      await rig.cancel(id, "now");
      expect((await readUnsent(rig)).map((one) => one.id)).toEqual([
        `${id}/0/0/2/unsent`,
        `${id}/0/1/2/unsent`,
      ]);
    },
  );
}
