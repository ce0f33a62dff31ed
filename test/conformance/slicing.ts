/**
 * Slicing: chunks are rows before anything runs. No gap and no repeat, whichever slicer plans and
 * however often.
 */
import { expect } from "vitest";
import type { PlannedChunk } from "../../src/ports/store/conductor-store.ts";
import { manifests, type Rule } from "./rig.ts";
import { NO_PERMITS } from "../support/permits.ts";

/** Chunks with the locations of their items instead of the items. */
function located(...sizes: readonly number[]): PlannedChunk[] {
  return sizes.map((items, n) => ({ items, locator: `at-${n}`, manifest: null, keys: null }));
}

/** Chunks whose items' keys must be unique. */
function keyed(...chunks: readonly (readonly (string | null)[])[]): PlannedChunk[] {
  return chunks.map((keys, n) => ({
    items: keys.length,
    locator: null,
    manifest: new Uint8Array([n]),
    keys,
  }));
}

export function describeSlicing(rule: Rule): void {
  rule("a batch gets its turn and starts before it is sliced", async ({ rig }) => {
    const { id } = await rig.submit();
    const submittedAt = rig.clock.wallMs();
    rig.clock.advance(1_234);
    const started = await rig.store.startSlicing(id, false);
    expect(started).toMatchObject({
      kind: "done",
      batch: { state: "slicing", startedAt: submittedAt },
    });
  });

  rule("a second start of slicing changes nothing but the fence", async ({ rig }) => {
    const id = await rig.slicing();
    await rig.plan(id, manifests(2), { cursor: "after 2" });
    const before = await rig.observe(id);
    rig.clock.advance(1_000);
    expect(await rig.store.startSlicing(id, false)).toMatchObject({ kind: "done" });
    const batch = { ...before.batch, sliceFence: before.batch.sliceFence + 1 };
    expect(await rig.observe(id)).toEqual({ ...before, batch });
  });

  rule("chunks are adjacent half-open ranges across parts", async ({ rig }) => {
    const id = await rig.slicing();
    expect(await rig.plan(id, manifests(3, 3))).toEqual({ kind: "planned", chunks: 2 });
    expect(await rig.plan(id, manifests(3, 1))).toEqual({ kind: "planned", chunks: 4 });
    await rig.finishSlicing(id, 4);
    const leased = await rig.lease({ chunksMax: 10 });
    expect(leased.map(({ chunk, start, end }) => [chunk, start, end])).toEqual([
      [0, 0, 3],
      [1, 3, 6],
      [2, 6, 9],
      [3, 9, 10],
    ]);
    expect((await rig.get(id)).counts).toMatchObject({ planned: 10, pending: 10 });
  });

  rule("after a crash slicing continues where the last part ended", async ({ rig }) => {
    const id = await rig.slicing();
    await rig.plan(id, located(2, 2), { cursor: "byte 400" });
    const found = await rig.store.startSlicing(id, false);
    expect(found.batch).toMatchObject({ chunks: 2, sliceCursor: "byte 400" });
  });

  rule("a chunk is leased with its locator, or with none if it has a manifest", async ({ rig }) => {
    const id = await rig.slicing();
    await rig.plan(id, [...located(2), ...manifests(2)]);
    await rig.finishSlicing(id, 2);
    const leased = await rig.lease({ chunksMax: 2 });
    expect(leased.map(({ locator }) => locator)).toEqual(["at-0", null]);
  });

  rule("chunks cannot be planned into a batch that is not being sliced", async ({ rig }) => {
    const { id } = await rig.submit();
    expect(await rig.plan(id, manifests(1))).toMatchObject({
      kind: "moved_on",
      batch: { id, state: "submitted", chunks: 0 },
    });
  });

  rule("nothing is leased before slicing has finished", async ({ rig }) => {
    const id = await rig.slicing();
    await rig.plan(id, manifests(2));
    expect(await rig.look()).toEqual({
      reports: [],
      leased: [],
      nextDueInMs: null,
      ended: [],
      permits: NO_PERMITS,
    });
  });

  rule("a plan part whose reply was lost is not added twice", async ({ rig }) => {
    const id = await rig.slicing();
    const repeated = { part: "mine", afterChunks: 0 };
    await rig.plan(id, manifests(2, 2), repeated);
    expect(await rig.plan(id, manifests(2, 2), repeated)).toEqual({ kind: "planned", chunks: 2 });
    expect(await rig.get(id)).toMatchObject({ chunks: 2, counts: { planned: 4 } });
  });

  rule("a plan part of locators whose reply was lost is not added twice", async ({ rig }) => {
    const id = await rig.slicing();
    const repeated = { part: "mine", afterChunks: 0 };
    await rig.plan(id, located(2, 2), repeated);
    expect(await rig.plan(id, located(2, 2), repeated)).toEqual({ kind: "planned", chunks: 2 });
    expect(await rig.get(id)).toMatchObject({ chunks: 2, counts: { planned: 4 } });
  });

  rule(
    "a repeated part is recognised after later parts and after the end of the batch",
    async ({ rig }) => {
      const id = await rig.slicing();
      const repeated = { part: "mine", afterChunks: 1 };
      await rig.plan(id, manifests(1));
      await rig.plan(id, manifests(2, 2), repeated);
      await rig.plan(id, manifests(3));
      const answer = { kind: "planned", chunks: 3 };
      expect(await rig.plan(id, manifests(2, 2), repeated)).toEqual(answer);
      await rig.finishSlicing(id, 4);
      expect(await rig.plan(id, manifests(2, 2), repeated)).toEqual(answer);
      await rig.store.fail(id, { code: "STOP", message: "stop" });
      expect(await rig.plan(id, manifests(2, 2), repeated)).toEqual(answer);
      expect(await rig.get(id)).toMatchObject({ chunks: 4, counts: { planned: 8 } });
    },
  );

  rule("the slower of two planners learns that the batch has moved on", async ({ rig }) => {
    const id = await rig.slicing();
    await rig.plan(id, manifests(2), { part: "quick", afterChunks: 0, cursor: "2" });
    const slower = await rig.plan(id, manifests(2), { part: "slow", afterChunks: 0, cursor: "x" });
    expect(slower).toEqual({ kind: "moved_on", batch: await rig.get(id) });
    expect(await rig.get(id)).toMatchObject({ chunks: 1, sliceCursor: "2" });
  });

  rule("a part that would leave a gap is refused as moved on", async ({ rig }) => {
    const id = await rig.slicing();
    await rig.plan(id, manifests(2));
    const ahead = await rig.plan(id, manifests(2), { afterChunks: 5 });
    expect(ahead).toMatchObject({ kind: "moved_on", batch: { chunks: 1 } });
  });

  rule("slicing finishes only with exactly the planned chunks", async ({ rig }) => {
    const id = await rig.slicing();
    await rig.plan(id, manifests(2, 2));
    for (const chunks of [0, 1, 3]) {
      expect(await rig.finishSlicing(id, chunks)).toMatchObject({
        kind: "moved_on",
        batch: { state: "slicing", chunks: 2 },
      });
    }
    expect(await rig.finishSlicing(id, 2)).toMatchObject({
      kind: "done",
      batch: { state: "running", sealed: true },
    });
  });

  rule(
    "slicing finishes once: the second slicer learns that the batch has moved on",
    async ({ rig }) => {
      const id = await rig.running([2]);
      const before = await rig.observe(id);
      expect((await rig.finishSlicing(id, 1)).kind).toBe("moved_on");
      expect((await rig.store.startSlicing(id, false)).kind).toBe("moved_on");
      expect(await rig.observe(id)).toEqual(before);
    },
  );

  rule("a slicer that was replaced can neither plan nor finish", async ({ rig }) => {
    const id = await rig.slicing();
    const { sliceFence: fence } = await rig.get(id);
    await rig.plan(id, manifests(2));
    await rig.store.startSlicing(id, true);
    await rig.plan(id, manifests(3));
    const late = await rig.plan(id, manifests(2), { fence, afterChunks: 1 });
    expect(late.kind).toBe("moved_on");
    expect((await rig.store.finishSlicing(id, 1, fence)).kind).toBe("moved_on");
    expect(await rig.get(id)).toMatchObject({ chunks: 1, counts: { planned: 3 } });
    expect((await rig.finishSlicing(id, 1)).kind).toBe("done");
  });

  rule("slicing afresh deletes the earlier plan", async ({ rig }) => {
    const id = await rig.slicing();
    await rig.plan(id, manifests(5, 5), { cursor: "10" });
    const afresh = await rig.store.startSlicing(id, true);
    expect(afresh).toMatchObject({
      kind: "done",
      batch: { state: "slicing", chunks: 0, sliceCursor: null, counts: { planned: 0, pending: 0 } },
    });
    expect(await rig.store.readManifests(id, 0, 0, 10)).toEqual([]);
    await rig.plan(id, manifests(1));
    await rig.finishSlicing(id, 1);
    expect(await rig.leaseOne()).toMatchObject({ chunk: 0, start: 0, end: 1 });
  });

  rule("slicing afresh does not change a running batch", async ({ rig }) => {
    const id = await rig.running([2]);
    expect((await rig.store.startSlicing(id, true)).kind).toBe("moved_on");
    expect(await rig.get(id)).toMatchObject({ state: "running", chunks: 1 });
  });

  rule("a key that is twice in a part is refused with both items", async ({ rig }) => {
    const id = await rig.slicing();
    await rig.plan(id, manifests(3));
    expect(await rig.plan(id, keyed(["a", "b"], ["c", "b"]))).toEqual({
      kind: "duplicate_key",
      key: "b",
      firstItem: 4,
      secondItem: 6,
    });
    expect(await rig.get(id)).toMatchObject({ chunks: 1, counts: { planned: 3 } });
  });

  rule(
    "a key from an earlier part is refused, and nothing of the new part is kept",
    async ({ rig }) => {
      const id = await rig.slicing();
      await rig.plan(id, keyed(["a", "b"]));
      expect(await rig.plan(id, keyed(["c", "a"]))).toEqual({
        kind: "duplicate_key",
        key: "a",
        firstItem: 0,
        secondItem: 3,
      });
      expect(await rig.plan(id, keyed(["c"]))).toEqual({ kind: "planned", chunks: 2 });
    },
  );

  rule("items without a key are never duplicates", async ({ rig }) => {
    const id = await rig.slicing();
    expect(await rig.plan(id, keyed([null, "a", null], [null]))).toMatchObject({ kind: "planned" });
    expect(await rig.plan(id, keyed([null, "a"]))).toEqual({
      kind: "duplicate_key",
      key: "a",
      firstItem: 1,
      secondItem: 5,
    });
  });

  rule("a repeated part does not conflict with its own keys", async ({ rig }) => {
    const id = await rig.slicing();
    const repeated = { part: "mine", afterChunks: 0 };
    await rig.plan(id, keyed(["a", "b"]), repeated);
    expect(await rig.plan(id, keyed(["a", "b"]), repeated)).toMatchObject({ kind: "planned" });
  });

  rule("slicing afresh frees the keys of the earlier plan", async ({ rig }) => {
    const id = await rig.slicing();
    await rig.plan(id, keyed(["a", "b"]));
    await rig.store.startSlicing(id, true);
    expect(await rig.plan(id, keyed(["b", "a"]))).toEqual({ kind: "planned", chunks: 1 });
  });

  rule("keys are unique within a batch, not across batches", async ({ rig }) => {
    const [one, two] = [await rig.slicing(), await rig.slicing()];
    await rig.plan(one, keyed(["a"]));
    expect(await rig.plan(two, keyed(["a"]))).toMatchObject({ kind: "planned" });
  });

  rule("keys stay unique while an open batch grows", async ({ rig }) => {
    const id = await rig.slicing({ open: true });
    await rig.plan(id, keyed(["a"]));
    await rig.finishSlicing(id, 1);
    expect(await rig.plan(id, keyed(["a"]))).toMatchObject({ kind: "duplicate_key", key: "a" });
    expect(await rig.plan(id, keyed(["b"]))).toMatchObject({ kind: "planned" });
  });

  rule("the end of slicing seals a batch that is not open", async ({ rig }) => {
    const id = await rig.running([2]);
    expect(await rig.get(id)).toMatchObject({ open: false, sealed: true });
    expect(await rig.plan(id, manifests(1))).toMatchObject({
      kind: "moved_on",
      batch: { chunks: 1 },
    });
  });

  rule(
    "a running open batch takes more chunks, and they can be leased at once",
    async ({ rig }) => {
      const id = await rig.running([], { open: true });
      expect(await rig.get(id)).toMatchObject({ state: "running", sealed: false, chunks: 0 });
      expect(await rig.lease()).toEqual([]);
      expect(await rig.plan(id, manifests(2))).toEqual({ kind: "planned", chunks: 1 });
      expect(await rig.leaseOne()).toMatchObject({ batch: id, chunk: 0, start: 0, end: 2 });
      expect(await rig.plan(id, manifests(3))).toEqual({ kind: "planned", chunks: 2 });
      expect(await rig.leaseOne()).toMatchObject({ batch: id, chunk: 1, start: 2, end: 5 });
    },
  );

  rule("a part without chunks adds nothing and makes nothing due", async ({ rig }) => {
    const id = await rig.running([1], { open: true });
    await rig.settle(await rig.leaseOne());
    expect(await rig.plan(id, [])).toEqual({ kind: "planned", chunks: 1 });
    expect(await rig.look()).toMatchObject({ leased: [], nextDueInMs: null });
  });
}
