/**
 * Retention: scratch data and evidence are pruned at their own ages, never when unfinished or
 * unread.
 */
import { expect } from "vitest";
import { LEDGER_SIGNER } from "../../src/core/events/reader-name.ts";
import type { RetentionAges } from "../../src/core/batch/retention.ts";
import type { PrunePolicy, PruneResult } from "../../src/ports/store/operator-store.ts";
import { type Rig, type Rule, say, steps } from "./rig.ts";

async function prune(rig: Rig, policy: Partial<PrunePolicy>): Promise<PruneResult> {
  const nothing = { scratchAgeMs: null, evidenceAgeMs: null, dryRun: false };
  return rig.store.prune({ ...nothing, ...policy });
}

/** An ended batch with a result and an edited dead letter that has a checkpoint. */
async function end(rig: Rig, retention?: RetentionAges): Promise<string> {
  const settings = { ...steps({}), ...(retention && { retention }) };
  const id = await rig.running([3], { settings });
  const lease = await rig.leaseOne({ batch: id });
  await rig.store.claimContents(lease, [
    { index: 0, content: `${id}/done` },
    { index: 1, content: `${id}/free` },
  ]);
  await rig.report(lease, { checkpoints: { 1: "fetched", 2: "parsed" }, intent: "keep" });
  await rig.report(lease, {
    succeeded: [0],
    failed: [1, 2],
    results: { 0: "0" },
    contents: { 0: `${id}/done` },
  });
  await rig.edit(id, 2, "1");
  return id;
}

/** An age that every ended batch has, even one that ended in this millisecond. */
const ANY_AGE_MS = -1;

export function describeRetention(rule: Rule): void {
  rule("a prune of scratch data keeps the evidence", async ({ rig }) => {
    const id = await end(rig);
    const before = await rig.observe(id);
    expect(await prune(rig, { scratchAgeMs: ANY_AGE_MS })).toEqual({
      scratched: 1,
      removed: 0,
      messages: 0,
      owed: 0,
      more: false,
    });
    expect(await rig.store.readManifests(id, 0, 0, 9)).toEqual([]);
    expect(await rig.store.findItem(id, 0, 1)).toMatchObject({
      checkpoint: null,
      outcome: "failed",
    });
    expect(await rig.store.findItem(id, 0, 2)).toMatchObject({ override: null });
    const after = (await rig.observe(id)) as typeof before & { deadLetters: object[] };
    const letters = after.deadLetters.map((letter) => ({ ...letter, edited: false }));
    expect(after).toEqual({
      ...before,
      batch: { ...before.batch, pruned: true },
      deadLetters: letters,
    });
    expect(letters).toHaveLength(2);
  });

  rule("a batch without its scratch data cannot be redriven or edited", async ({ rig }) => {
    const id = await end(rig);
    await prune(rig, { scratchAgeMs: ANY_AGE_MS });
    const before = await rig.observe(id);
    expect(await rig.redrive(id)).toMatchObject({ kind: "refused", why: "pruned" });
    expect(await rig.edit(id, 1, "1")).toBe(false);
    expect(await rig.observe(id)).toEqual(before);
    expect(await rig.discard(id)).toBe(2);
  });

  rule("scratch data is removed once", async ({ rig }) => {
    await end(rig);
    await prune(rig, { scratchAgeMs: ANY_AGE_MS });
    expect(await prune(rig, { scratchAgeMs: ANY_AGE_MS })).toMatchObject({ scratched: 0 });
  });

  rule(
    "a prune of evidence deletes all evidence of its batch and none of another batch",
    async ({ rig }) => {
      const gone = await end(rig);
      rig.clock.advance(1_000);
      const kept = await end(rig);
      const before = await rig.observe(kept);
      expect(await prune(rig, { evidenceAgeMs: 0 })).toEqual({
        scratched: 0,
        removed: 1,
        messages: 0,
        owed: 0,
        more: false,
      });
      expect(await rig.store.getBatch(gone)).toBeNull();
      expect(await rig.store.recount(gone)).toBeNull();
      expect(await rig.records(gone)).toEqual([]);
      await expect(rig.letters(gone)).rejects.toMatchObject({ code: "NOT_FOUND", kind: "batch" });
      expect(await rig.observe(kept)).toEqual(before);
      expect((await rig.store.listBatches({ limit: 9 })).map(({ id }) => id)).toEqual([kept]);
    },
  );

  rule("evidence of a batch whose scratch data was pruned is pruned as well", async ({ rig }) => {
    const id = await end(rig);
    await prune(rig, { scratchAgeMs: ANY_AGE_MS });
    expect(await prune(rig, { evidenceAgeMs: ANY_AGE_MS })).toMatchObject({ removed: 1 });
    expect(await rig.store.getBatch(id)).toBeNull();
  });

  rule("a batch whose evidence is pruned is not also counted as scratch", async ({ rig }) => {
    await end(rig);
    rig.clock.advance(1_000);
    await end(rig);
    const policy = { scratchAgeMs: ANY_AGE_MS, evidenceAgeMs: 500 };
    expect(await prune(rig, { ...policy, dryRun: true })).toMatchObject({
      scratched: 1,
      removed: 1,
    });
    expect(await prune(rig, policy)).toMatchObject({ scratched: 1, removed: 1 });
  });

  rule("a batch that ended exactly at the age limit is kept", async ({ rig }) => {
    await end(rig);
    expect(await prune(rig, { scratchAgeMs: 0, evidenceAgeMs: 0 })).toMatchObject({
      scratched: 0,
      removed: 0,
    });
  });

  rule("a batch that has not ended is never pruned", async ({ rig }) => {
    const reopened = await end(rig);
    await rig.redrive(reopened);
    const ids = [
      (await rig.submit()).id,
      await rig.slicing(),
      await rig.running([1]),
      await rig.running([1], { open: true }),
      reopened,
    ];
    const before = await Promise.all(ids.map((id) => rig.observe(id)));
    rig.clock.advance(10 ** 6);
    const policy = { scratchAgeMs: ANY_AGE_MS, evidenceAgeMs: ANY_AGE_MS };
    expect(await prune(rig, policy)).toEqual({
      scratched: 0,
      removed: 0,
      messages: 0,
      owed: 0,
      more: false,
    });
    expect(await Promise.all(ids.map((id) => rig.observe(id)))).toEqual(before);
    expect(await rig.store.readManifests(reopened, 0, 0, 9)).toHaveLength(1);
  });

  for (const state of ["submitted", "slicing", "ready", "running", "reopened"] as const) {
    rule(`a prune of one named batch removes nothing while it is ${state}`, async ({ rig }) => {
      const makeReopened = async (): Promise<string> => {
        const ended = await end(rig);
        await rig.running([1], { lane: (await rig.get(ended)).lane });
        await rig.redrive(ended);
        return ended;
      };
      const lane = "shared";
      if (state === "ready") await rig.running([1], { lane });
      const make = {
        submitted: async () => (await rig.submit()).id,
        slicing: () => rig.slicing(),
        ready: () => rig.running([1], { lane }),
        running: () => rig.running([1]),
        reopened: makeReopened,
      }[state];
      const batch = await make();
      expect(await rig.state(batch)).toBe(state === "reopened" ? "ready" : state);
      const before = await rig.observe(batch);
      rig.clock.advance(10 ** 6);
      const ages = { scratchAgeMs: ANY_AGE_MS, evidenceAgeMs: ANY_AGE_MS };
      for (const policy of [ages, { ...ages, evidenceAgeMs: null }, { ...ages, dryRun: true }]) {
        const pruned = await prune(rig, { ...policy, batch });
        expect(pruned).toMatchObject({ scratched: 0, removed: 0, owed: 0 });
      }
      expect(await rig.observe(batch)).toEqual(before);
      expect((await rig.get(batch)).pruned).toBe(false);
    });
  }

  rule("a dry run counts and changes nothing", async ({ rig }) => {
    const id = await end(rig);
    const before = await rig.observe(id);
    expect(await prune(rig, { scratchAgeMs: ANY_AGE_MS, dryRun: true })).toMatchObject({
      scratched: 1,
      removed: 0,
    });
    expect(await prune(rig, { evidenceAgeMs: ANY_AGE_MS, dryRun: true })).toMatchObject({
      removed: 1,
    });
    expect(await rig.observe(id)).toEqual(before);
    expect(await rig.store.readManifests(id, 0, 0, 9)).toHaveLength(1);
  });

  rule("evidence is kept until every reader of the records has read it", async ({ rig }) => {
    const told = await end(rig);
    const upTo = (await rig.records(told)).at(-1)!.position;
    const untold = await end(rig);
    const last = (await rig.records(untold)).at(-1)!.position;
    await rig.store.savePosition("quick", last);
    await rig.store.savePosition("slow", upTo);
    const policy = { evidenceAgeMs: ANY_AGE_MS };
    expect(await prune(rig, { ...policy, dryRun: true })).toMatchObject({ removed: 1, owed: 1 });
    expect(await prune(rig, policy)).toMatchObject({ removed: 1, owed: 1 });
    expect(await rig.store.getBatch(untold)).not.toBeNull();
    await rig.store.savePosition("slow", last - 1);
    expect(await prune(rig, policy)).toMatchObject({ removed: 0, owed: 1 });
    await rig.store.savePosition("slow", last);
    expect(await prune(rig, policy)).toMatchObject({ removed: 1, owed: 0 });
  });

  rule("scratch data is pruned even if readers of the records are behind", async ({ rig }) => {
    await end(rig);
    await rig.store.savePosition("slow", 1);
    expect(await prune(rig, { scratchAgeMs: ANY_AGE_MS })).toMatchObject({ scratched: 1, owed: 0 });
  });

  describeOwnAges(rule);

  rule("evidence is pruned even if it is not signed yet", async ({ rig }) => {
    const id = await end(rig);
    const [first] = await rig.records(id);
    await rig.store.startReader(LEDGER_SIGNER, "beginning");
    const { position, seq, type } = first!;
    const event = { position, event: `${id}/${seq}`, batch: id, type };
    const refusal = { attempts: 1, code: "E", message: "no key" };
    await rig.store.keepUndelivered({ reader: LEDGER_SIGNER, ...event, ...refusal });
    const policy = { evidenceAgeMs: ANY_AGE_MS };
    expect(await prune(rig, { ...policy, dryRun: true })).toMatchObject({ removed: 1, owed: 0 });
    await rig.store.startReader("slow", "beginning");
    expect(await prune(rig, policy)).toMatchObject({ removed: 0, owed: 1 });
    await rig.store.forgetReader("slow");
    expect(await prune(rig, policy)).toMatchObject({ removed: 1, owed: 0 });
    expect(await rig.store.getBatch(id)).toBeNull();
    expect(await rig.store.listUndelivered({ afterId: 0, limit: 9 })).toEqual([]);
  });

  rule("many batches are pruned in small steps, and all of them in the end", async ({ rig }) => {
    const ids = await Promise.all(Array.from({ length: 50 }, () => rig.running([])));
    for (const policy of [{ scratchAgeMs: ANY_AGE_MS }, { evidenceAgeMs: ANY_AGE_MS }]) {
      let count = 0;
      for (let calls = 0; calls < 20; calls++) {
        const { scratched, removed, more } = await prune(rig, policy);
        count += scratched + removed;
        if (!more) break;
      }
      expect(count).toBe(ids.length);
    }
    expect(await rig.store.listBatches({ limit: 9 })).toEqual([]);
  });

  rule(
    "a batch with very many rows is pruned in several steps and cannot be redriven meanwhile",
    async ({ rig }) => {
      const id = await rig.running(Array.from({ length: 12_000 }, () => 1));
      for (let round = 0; round < 12; round++) {
        const leased = await rig.lease({ chunksMax: 1_000, itemsMax: 10 ** 6 });
        const reports = leased.map((lease, at) =>
          say(lease, at === 0 ? { failed: [0] } : { succeeded: [0] }),
        );
        await rig.store.work(reports, null);
      }
      expect(await rig.state(id)).toBe("completed_with_errors");
      const policies: Partial<PrunePolicy>[] = [
        { scratchAgeMs: ANY_AGE_MS },
        { evidenceAgeMs: ANY_AGE_MS },
      ];
      for (const policy of policies) {
        let count = 0;
        for (let calls = 0; calls < 20; calls++) {
          const { scratched, removed, more } = await prune(rig, policy);
          count += scratched + removed;
          if (!more) break;
          expect(await rig.redrive(id)).toMatchObject({ kind: "refused", why: "pruned" });
          // A partial chain would look broken: the chain is there completely, or not at all.
          const [first] = await rig.store.readLedger(id, 0, 10);
          const isLeaving = policy.evidenceAgeMs !== undefined;
          expect(first?.seq).toBe(isLeaving ? undefined : 1);
        }
        expect(count).toBe(1);
      }
      expect(await rig.store.getBatch(id)).toBeNull();
    },
  );

  rule("one batch can be pruned alone", async ({ rig }) => {
    const [one, two] = [await end(rig), await end(rig)];
    const policy = { evidenceAgeMs: ANY_AGE_MS, batch: one };
    expect(await prune(rig, { ...policy, dryRun: true })).toMatchObject({ removed: 1 });
    expect(await prune(rig, policy)).toMatchObject({ removed: 1 });
    expect(await rig.store.getBatch(one)).toBeNull();
    expect(await rig.store.getBatch(two)).not.toBeNull();
  });

  rule(
    "a final content claim outlives the scratch data and is pruned with the evidence",
    async ({ rig }) => {
      const id = await end(rig);
      await rig.running([2, 2]);
      const [one, two] = await rig.lease({ chunksMax: 2 });
      const contents = [
        { index: 0, content: `${id}/done` },
        { index: 1, content: `${id}/free` },
      ];
      await prune(rig, { scratchAgeMs: ANY_AGE_MS });
      expect(await rig.store.claimContents(one!, contents)).toEqual(["done", "claimed"]);
      await prune(rig, { evidenceAgeMs: ANY_AGE_MS });
      expect(await rig.store.claimContents(two!, contents)).toEqual(["claimed", "held"]);
    },
  );

  rule("the id, the key and the lane of a pruned batch can be used again", async ({ rig }) => {
    const draft = rig.draft({ key: "monday", inputHash: "one", lane: "main" });
    await rig.store.submit(draft);
    await rig.slice(draft.id, [1]);
    await rig.settle(await rig.leaseOne());
    await prune(rig, { evidenceAgeMs: ANY_AGE_MS });
    const again = await rig.store.submit({ ...draft, inputHash: "two" });
    expect(again).toMatchObject({ kind: "created", batch: { active: true, state: "submitted" } });
    await rig.slice(draft.id, [2]);
    expect(await rig.settle(await rig.leaseOne())).toBe("settled");
    expect(await rig.get(draft.id)).toMatchObject({ state: "succeeded", counts: { planned: 2 } });
    expect((await rig.records(draft.id))[0]).toMatchObject({ seq: 1 });
  });

  rule("positions of pruned records are not used again", async ({ rig }) => {
    const id = await end(rig);
    const last = (await rig.records(id)).at(-1)!.position;
    await prune(rig, { evidenceAgeMs: ANY_AGE_MS });
    const { id: next } = await rig.submit();
    expect((await rig.records(next))[0]!.position).toBeGreaterThan(last);
  });
}

/** The ages that a pipeline declared for its batches. */
function describeOwnAges(rule: Rule): void {
  /** Which of the batches exist, and which of those still have their scratch data. */
  const look = async (rig: Rig, ids: readonly string[]): Promise<("whole" | "pruned" | "gone")[]> =>
    Promise.all(
      ids.map(async (id) => {
        const batch = await rig.store.getBatch(id);
        if (batch === null) return "gone";
        const manifests = await rig.store.readManifests(id, 0, 0, 9);
        expect(manifests.length > 0).toBe(!batch.pruned);
        return batch.pruned ? "pruned" : "whole";
      }),
    );
  /** Does a dry run first. */
  const pruneAsTold = async (rig: Rig, policy: Partial<PrunePolicy>): Promise<PruneResult> => {
    const told = await prune(rig, { ...policy, dryRun: true });
    expect(await prune(rig, policy)).toEqual(told);
    return told;
  };

  rule("a batch's own ages replace the given ones, each separately", async ({ rig }) => {
    const ids = [
      await end(rig),
      await end(rig, { keepMs: 2_000 }),
      await end(rig, { keepMs: 300 }),
      await end(rig, { keepEvidenceMs: 5_000 }),
      await end(rig, { keepEvidenceMs: 300 }),
      await end(rig, { keepMs: 300, keepEvidenceMs: 600 }),
      await end(rig, { keepMs: 300, keepEvidenceMs: 0 }),
    ];
    const policy = { scratchAgeMs: 500, evidenceAgeMs: 1_000 };
    rig.clock.advance(400);
    expect(await pruneAsTold(rig, policy)).toMatchObject({ scratched: 3, removed: 1 });
    const early = ["whole", "whole", "pruned", "whole", "gone", "pruned", "pruned"];
    expect(await look(rig, ids)).toEqual(early);
    rig.clock.advance(1_100);
    expect(await pruneAsTold(rig, policy)).toMatchObject({ scratched: 1, removed: 3 });
    const late = ["gone", "whole", "gone", "pruned", "gone", "gone", "pruned"];
    expect(await look(rig, ids)).toEqual(late);
    rig.clock.advance(10 ** 6);
    expect(await pruneAsTold(rig, policy)).toMatchObject({ scratched: 0, removed: 2 });
    expect(await look(rig, ids)).toEqual([...ids.slice(1).map(() => "gone"), "pruned"]);
  });

  rule("a batch's own ages apply even when nothing else is pruned", async ({ rig }) => {
    const ids = [
      await end(rig),
      await end(rig, { keepMs: 300 }),
      await end(rig, { keepEvidenceMs: 300 }),
    ];
    rig.clock.advance(400);
    expect(await pruneAsTold(rig, {})).toMatchObject({ scratched: 1, removed: 1 });
    expect(await look(rig, ids)).toEqual(["whole", "pruned", "gone"]);
  });

  rule("a batch that ended exactly at its own age limit is kept", async ({ rig }) => {
    const ids = [await end(rig, { keepMs: 400 }), await end(rig, { keepEvidenceMs: 400 })];
    rig.clock.advance(400);
    expect(await pruneAsTold(rig, {})).toMatchObject({ scratched: 0, removed: 0 });
    rig.clock.advance(1);
    expect(await pruneAsTold(rig, {})).toMatchObject({ scratched: 1, removed: 1 });
    expect(await look(rig, ids)).toEqual(["pruned", "gone"]);
  });

  rule("a prune of one named batch uses the given ages, not the batch's own", async ({ rig }) => {
    const long = { keepMs: 10 ** 9, keepEvidenceMs: 0 };
    const [one, two] = [await end(rig, long), await end(rig, { keepMs: 1, keepEvidenceMs: 1 })];
    rig.clock.advance(400);
    const none = { scratched: 0, removed: 0 };
    expect(await pruneAsTold(rig, { scratchAgeMs: 500, batch: two })).toMatchObject(none);
    expect(await pruneAsTold(rig, { scratchAgeMs: 300, batch: one })).toMatchObject({
      scratched: 1,
    });
    expect(await look(rig, [one, two])).toEqual(["pruned", "whole"]);
    const policy = { scratchAgeMs: 300, evidenceAgeMs: 300, batch: one };
    expect(await pruneAsTold(rig, policy)).toMatchObject({ scratched: 0, removed: 1 });
    expect(await look(rig, [one, two])).toEqual(["gone", "whole"]);
  });

  rule("unread evidence and unfinished batches are kept at any age", async ({ rig }) => {
    const ages = { keepMs: 1, keepEvidenceMs: 1 };
    const owed = await end(rig, ages);
    const settings = { ...steps({}), retention: ages };
    const running = await rig.running([1], { settings });
    await rig.store.startReader("slow", "beginning");
    rig.clock.advance(1_000);
    expect(await pruneAsTold(rig, {})).toMatchObject({ scratched: 0, removed: 0, owed: 1 });
    expect(await look(rig, [owed, running])).toEqual(["whole", "whole"]);
  });

  rule("many batches with their own ages are pruned in small steps", async ({ rig }) => {
    const settings = { ...steps({}), retention: { keepMs: 10, keepEvidenceMs: 1_000 } };
    const ids = Array.from({ length: 50 }, () => rig.running([], { settings }));
    await Promise.all(ids);
    for (const ms of [500, 1_000]) {
      rig.clock.advance(ms);
      let count = 0;
      for (let calls = 0; calls < 20; calls++) {
        const { scratched, removed, more } = await prune(rig, {});
        count += scratched + removed;
        if (!more) break;
      }
      expect(count).toBe(ids.length);
    }
    expect(await rig.store.listBatches({ limit: 9 })).toEqual([]);
  });
}
