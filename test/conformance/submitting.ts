/** Submitting: the same request twice is the same batch, and never a second batch by accident. */
import { expect } from "vitest";
import { type Rule, steps } from "./rig.ts";

const NO_ITEMS = { planned: 0, succeeded: 0, skipped: 0, failed: 0, cancelled: 0, pending: 0 };

const UNKNOWN = expect.objectContaining({ name: "SluiceError", code: "NOT_FOUND", kind: "batch" });

export function describeSubmitting(rule: Rule): void {
  rule("a new batch has its given options and no items", async ({ rig }) => {
    const draft = rig.draft({
      key: "monday",
      lane: "case-7",
      open: true,
      deadlineAt: 77,
    });
    expect(await rig.store.submit(draft)).toEqual({
      kind: "created",
      batch: {
        id: draft.id,
        pipeline: "import",
        version: "1",
        lane: "case-7",
        tenant: "case-7",
        key: "monday",
        input: draft.input,
        state: "submitted",
        open: true,
        sealed: false,
        settings: steps({}),
        active: true,
        step: 0,
        steps: [{ name: "import", counts: NO_ITEMS, chunks: 0, passes: 0 }],
        counts: NO_ITEMS,
        chunks: 0,
        sliceCursor: null,
        sliceFence: 0,
        reason: null,
        pause: null,
        parked: null,
        cancel: null,
        drive: 1,
        sinceDrive: 1,
        deadlineAt: 77,
        pruned: false,
        submittedAt: rig.clock.wallMs(),
        startedAt: rig.clock.wallMs(),
        endedAt: null,
      },
    });
  });

  rule("a repeated submit with the same id returns the same batch", async ({ rig }) => {
    const draft = rig.draft();
    const first = await rig.store.submit(draft);
    rig.clock.advance(5_000);
    expect(await rig.store.submit(draft)).toEqual({ kind: "existing", batch: first.batch });
    expect(await rig.recordTypes(draft.id)).toEqual(["batch.submitted", "batch.started"]);
  });

  rule(
    "the same key twice gives the same batch, whatever the id of the second submit",
    async ({ rig }) => {
      const first = await rig.submit({ key: "monday", inputHash: "same" });
      const again = await rig.store.submit(rig.draft({ key: "monday", inputHash: "same" }));
      expect(again).toEqual({ kind: "existing", batch: first });
      expect(await rig.store.listBatches({ limit: 10 })).toHaveLength(1);
    },
  );

  rule("the same key gives the same batch even after its end", async ({ rig }) => {
    const id = await rig.running([], { key: "monday", inputHash: "same" });
    expect((await rig.get(id)).state).toBe("succeeded");
    const again = await rig.store.submit(rig.draft({ key: "monday", inputHash: "same" }));
    expect(again).toMatchObject({ kind: "existing", batch: { id, state: "succeeded" } });
  });

  rule("the same key with another input is refused with the name of the batch", async ({ rig }) => {
    const first = await rig.submit({ key: "monday", inputHash: "one" });
    const other = await rig.store.submit(rig.draft({ key: "monday", inputHash: "two" }));
    expect(other).toEqual({ kind: "key_taken", batch: first });
    expect(await rig.store.listBatches({ limit: 10 })).toHaveLength(1);
  });

  rule("the same key in another pipeline is another batch", async ({ rig }) => {
    await rig.submit({ key: "monday", inputHash: "same" });
    const other = rig.draft({ key: "monday", inputHash: "same", pipeline: "export" });
    expect((await rig.store.submit(other)).kind).toBe("created");
  });

  rule("the same input without a key and without resume is a new batch", async ({ rig }) => {
    await rig.submit({ inputHash: "same" });
    const second = await rig.store.submit(rig.draft({ inputHash: "same" }));
    expect(second.kind).toBe("created");
  });

  rule("resume finds the newest unfinished batch of the same input", async ({ rig }) => {
    await rig.submit({ inputHash: "same", lane: "main" });
    const newest = await rig.running([3], { inputHash: "same", lane: "main" });
    const resumed = await rig.store.submit(
      rig.draft({ inputHash: "same", lane: "main", resume: true }),
    );
    expect(resumed).toMatchObject({ kind: "existing", batch: { id: newest, state: "ready" } });
  });

  rule("resume finds no ended batch", async ({ rig }) => {
    await rig.running([], { inputHash: "same", lane: "main" });
    const failed = await rig.submit({ inputHash: "same", lane: "main" });
    await rig.store.fail(failed.id, { code: "STOP", message: "stop" });
    const resumed = await rig.store.submit(
      rig.draft({ inputHash: "same", lane: "main", resume: true }),
    );
    expect(resumed.kind).toBe("created");
  });

  rule("resume finds no batch of another pipeline, lane, input or key", async ({ rig }) => {
    await rig.submit({ inputHash: "same", lane: "main", pipeline: "export" });
    await rig.submit({ inputHash: "same", lane: "case-7" });
    await rig.submit({ inputHash: "other" });
    await rig.submit({ inputHash: "same", lane: "main", key: "monday" });
    const resumed = await rig.store.submit(
      rig.draft({ inputHash: "same", lane: "main", resume: true }),
    );
    expect(resumed.kind).toBe("created");
  });

  rule("a batch that is found again keeps its own settings and version", async ({ rig }) => {
    const { id } = await rig.submit({ key: "monday", inputHash: "same" });
    const changes = {
      key: "monday",
      inputHash: "same",
      version: "2",
      settings: { ...steps({ chunkSize: 7 }), strict: true },
    };
    const again = await rig.store.submit(rig.draft(changes));
    expect(again.batch).toMatchObject({
      id,
      version: "1",
      settings: steps({}),
    });
  });

  rule("names with any characters are stored unchanged", async ({ rig }) => {
    const odd = "naïve 🚚 \u0000 \" ' ; -- \u2028 __proto__";
    const draft = rig.draft({ lane: odd, key: odd, pipeline: odd, version: odd });
    await rig.store.submit(draft);
    expect(await rig.get(draft.id)).toMatchObject({
      lane: odd,
      key: odd,
      pipeline: odd,
      version: odd,
    });
    expect((await rig.store.submit({ ...draft, id: "another" })).kind).toBe("existing");
  });

  rule("every act on an unknown batch is refused", async ({ rig }) => {
    const { store } = rig;
    const page = { step: 0, afterItem: -1, limit: 1 };
    const act = { by: "me", why: null };
    const reason = { code: "STOP", message: "stop" };
    const part = { step: 0, afterChunks: 0, chunks: [], cursor: null, fence: 0, part: "p" };
    await expect(store.startSlicing("unknown", false)).rejects.toEqual(UNKNOWN);
    await expect(store.plan({ batch: "unknown", ...part })).rejects.toEqual(UNKNOWN);
    await expect(store.finishSlicing("unknown", 0, 0)).rejects.toEqual(UNKNOWN);
    await expect(store.seal("unknown")).rejects.toEqual(UNKNOWN);
    await expect(store.fail("unknown", reason)).rejects.toEqual(UNKNOWN);
    await expect(store.readManifests("unknown", 0, 0, 1)).rejects.toEqual(UNKNOWN);
    await expect(store.readResults("unknown", { ...page, sinceDrive: 1 })).rejects.toEqual(UNKNOWN);
    await expect(store.readDeadLetters("unknown", { ...page, filter: {} })).rejects.toEqual(
      UNKNOWN,
    );
    await expect(store.findItem("unknown", 0, 0)).rejects.toEqual(UNKNOWN);
    await expect(store.cancel("unknown", { mode: "now", ...act })).rejects.toEqual(UNKNOWN);
    const scope = { scope: "batch", name: "unknown" } as const;
    await expect(store.pause({ ...scope, mode: "now", ...act })).rejects.toEqual(UNKNOWN);
    await expect(store.resume(scope, act)).rejects.toEqual(UNKNOWN);
    await expect(store.moveInLane("unknown", { to: "front" }, act)).rejects.toEqual(UNKNOWN);
    const all = { ceiling: 9, perSecond: null, withCancelled: true, dryRun: true };
    await expect(store.redrive("unknown", { filter: {}, ...all, ...act })).rejects.toEqual(UNKNOWN);
    const edit = { step: 0, item: 0, value: "1", ...act };
    await expect(store.editDeadLetter("unknown", edit)).rejects.toEqual(UNKNOWN);
    const discard = { filter: {}, ...act };
    await expect(store.discardDeadLetters("unknown", discard)).rejects.toEqual(UNKNOWN);
  });

  rule("each worker gets its own number", async ({ rig }) => {
    const facts = { name: "same name" };
    const numbers = [
      rig.worker,
      await rig.store.registerWorker(facts),
      await rig.store.registerWorker(facts),
    ];
    expect(new Set(numbers).size).toBe(3);
  });
}
