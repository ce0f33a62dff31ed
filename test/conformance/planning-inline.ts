/** Planning inline: one commit plans, starts and leases a batch of one chunk to its slicer. */
import { expect } from "vitest";
import type { InlineResult, PlanPart } from "../../src/ports/store/conductor-store.ts";
import type { LeaseRequest } from "../../src/ports/store/worker-store.ts";
import { LEASE_MS, manifests, type Rig, type Rule } from "./rig.ts";
import { NO_PERMITS } from "../support/permits.ts";

async function planInline(
  rig: Rig,
  batch: string,
  changes: Partial<PlanPart> = {},
  request: Partial<LeaseRequest> = {},
): Promise<InlineResult> {
  const part: PlanPart = {
    batch,
    step: 0,
    afterChunks: 0,
    fence: 1,
    chunks: manifests(3),
    cursor: "end",
    part: "inline",
    ...changes,
  };
  return rig.store.planInline(part, rig.request({ batch, ...request }));
}

export function describePlanningInline(rule: Rule): void {
  rule(
    "one commit plans the only chunk, seals and starts the batch and leases the chunk",
    async ({ rig }) => {
      const id = await rig.slicing();
      expect(await planInline(rig, id)).toEqual({
        kind: "leased",
        permits: NO_PERMITS,
        chunk: {
          batch: id,
          step: 0,
          chunk: 0,
          fence: 1,
          start: 0,
          end: 3,
          locator: null,
          outcomes: new Uint8Array(1),
          histories: [],
          overrides: [],
          guarded: false,
          final: true,
        },
      });
      expect(await rig.get(id)).toMatchObject({
        state: "running",
        sealed: true,
        chunks: 1,
        sliceCursor: "end",
        counts: { planned: 3, pending: 3 },
      });
      expect(await rig.recordTypes(id)).toEqual([
        "batch.submitted",
        "batch.started",
        "slicing.started",
        "slicing.finished",
      ]);
      expect(await rig.lease()).toEqual([]);
    },
  );

  rule("the lease settles, expires and is fenced like any other", async ({ rig }) => {
    const settled = await planInline(rig, await rig.slicing());
    expect(settled.kind === "leased" && (await rig.settle(settled.chunk))).toBe("settled");
    const id = await rig.slicing();
    const lost = await planInline(rig, id);
    await rig.lose();
    expect(lost.kind === "leased" && (await rig.settle(lost.chunk))).toBe("lost");
    await rig.settle(await rig.leaseOne());
    expect((await rig.get(id)).state).toBe("succeeded");
  });

  rule("the planned chunk is leased although older batches wait for a worker", async ({ rig }) => {
    await rig.running([1, 1]);
    const id = await rig.slicing();
    const planned = await planInline(rig, id, {}, { batch: null });
    expect(planned).toMatchObject({ kind: "leased", chunk: { batch: id, chunk: 0 } });
  });

  rule("a slicer that comes too late gets no lease and learns why", async ({ rig }) => {
    const id = await rig.slicing();
    await rig.plan(id, manifests(2), { part: "quicker" });
    const before = await rig.observe(id);
    expect(await planInline(rig, id)).toEqual({ kind: "moved_on", batch: await rig.get(id) });
    expect(await rig.observe(id)).toEqual(before);
    const submitted = await rig.submit();
    expect((await planInline(rig, submitted.id)).kind).toBe("moved_on");
  });

  rule("a duplicate key is refused, and nothing of the call is kept", async ({ rig }) => {
    const id = await rig.slicing();
    const [chunk] = manifests(3);
    const before = await rig.observe(id);
    const twice = { chunks: [{ ...chunk!, keys: ["a", "b", "a"] }] };
    expect(await planInline(rig, id, twice)).toEqual({
      kind: "duplicate_key",
      key: "a",
      firstItem: 0,
      secondItem: 2,
    });
    expect(await rig.observe(id)).toEqual(before);
  });

  rule(
    "a call that is repeated after a lost reply plans nothing more, and its lease expires",
    async ({ rig }) => {
      const id = await rig.slicing();
      await planInline(rig, id);
      const before = await rig.observe(id);
      expect(await planInline(rig, id)).toMatchObject({
        kind: "moved_on",
        batch: { state: "running", chunks: 1 },
      });
      expect(await rig.observe(id)).toEqual(before);
      rig.clock.advance(LEASE_MS);
      await rig.sweep();
      expect(await rig.leaseOne()).toMatchObject({ batch: id, chunk: 0, start: 0, end: 3 });
    },
  );

  rule("a small batch whose lane is taken is planned and waits for its turn", async ({ rig }) => {
    const holder = await rig.running([1], { lane: "main" });
    const id = await rig.slicing({ lane: "main" });
    expect(await planInline(rig, id)).toEqual({ kind: "planned", chunks: 1 });
    expect(await rig.get(id)).toMatchObject({ state: "ready", counts: { pending: 3 } });
    await rig.cancel(holder);
    expect(await rig.leaseOne()).toMatchObject({ batch: id, chunk: 0, fence: 1 });
  });

  rule("an open batch stays open", async ({ rig }) => {
    const id = await rig.slicing({ open: true });
    const planned = await planInline(rig, id);
    expect(planned.kind === "leased" && (await rig.settle(planned.chunk))).toBe("settled");
    expect(await rig.get(id)).toMatchObject({ state: "running", sealed: false });
    expect(await rig.plan(id, manifests(1))).toEqual({ kind: "planned", chunks: 2 });
  });
}
