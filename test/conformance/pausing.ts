/** Pausing: nothing is leased in the paused scope, nothing is lost, and the batch still ends. */
import { expect } from "vitest";
import { ME, type Rig, type Rule, say, steps } from "./rig.ts";

const SCOPES = [
  { scope: "batch", name: async (rig: Rig, id: string) => (await rig.get(id)).id },
  { scope: "lane", name: async (rig: Rig, id: string) => (await rig.get(id)).lane },
  { scope: "pipeline", name: async (rig: Rig, id: string) => (await rig.get(id)).pipeline },
] as const;

export function describePausing(rule: Rule): void {
  for (const { scope, name } of SCOPES) {
    rule(
      `nothing is leased while the ${scope} is paused, and everything afterwards`,
      async ({ rig }) => {
        const id = await rig.running([1, 1]);
        const other = await rig.running([1], { pipeline: "export" });
        await rig.report(await rig.leaseOne({ batch: id }), {});
        const paused = await name(rig, id);
        expect(await rig.pause(scope, paused)).toBe(true);
        expect(await rig.look({ chunksMax: 9 })).toMatchObject({ leased: [], nextDueInMs: null });
        expect(await rig.lease({ pipeline: "export" })).toMatchObject([{ batch: other }]);
        expect(await rig.resume(scope, paused)).toBe(true);
        expect(await rig.lease({ chunksMax: 9 })).toHaveLength(2);
      },
    );

    rule(`a pause and a resume of the ${scope} are recorded`, async ({ rig }) => {
      const id = await rig.running([1]);
      const paused = await name(rig, id);
      const act = { by: "ann", why: "the portal is down" };
      await rig.store.pause({ scope, name: paused, mode: "now", ...act });
      const facts = { scope, name: paused, mode: "now", ...act };
      expect((await rig.get(id)).pause).toEqual(facts);
      await rig.resume(scope, paused);
      expect((await rig.get(id)).pause).toBeNull();
      expect(await rig.recorded(id, "batch.paused")).toEqual([{ scope, mode: "now", ...act }]);
      expect(await rig.recorded(id, "batch.resumed")).toEqual([{ scope, by: "me" }]);
    });

    rule(`a second pause and a second resume of the ${scope} change nothing`, async ({ rig }) => {
      const id = await rig.running([1]);
      const paused = await name(rig, id);
      await rig.pause(scope, paused, "drain");
      const before = await rig.observe(id);
      expect(await rig.pause(scope, paused, "now")).toBe(false);
      expect(await rig.observe(id)).toEqual(before);
      await rig.resume(scope, paused);
      const after = await rig.observe(id);
      expect(await rig.resume(scope, paused)).toBe(false);
      expect(await rig.observe(id)).toEqual(after);
    });
  }

  rule(
    "the actor and the reason of a pause are stored unchanged, with any characters",
    async ({ rig }) => {
      const id = await rig.running([1]);
      const words = { by: 'ann "\0\uE000"', why: "a\0b\uE0000\n" };
      const paused = { scope: "lane", name: (await rig.get(id)).lane } as const;
      await rig.store.pause({ ...paused, mode: "drain", ...words });
      expect((await rig.get(id)).pause).toMatchObject(words);
      expect(await rig.store.listLanes()).toMatchObject([{ pause: words }]);
      expect((await rig.store.readWaiting(id, 1))?.batch.pause).toMatchObject(words);
    },
  );

  rule("records of one pause or resume follow the order of submission", async ({ rig }) => {
    const lanes = ["c", "a", "b"];
    const ids: string[] = [];
    for (const lane of lanes) ids.push(await rig.running([1], { lane }));
    for (const lane of lanes) await rig.store.setLanePolicy(lane, "skip");
    const listNew = async (after: number): Promise<string[]> =>
      (await rig.store.readRecords(null, after, 99)).map(({ batch, type }) => `${batch} ${type}`);
    const before = await rig.store.readLastPosition();
    await rig.pause("pipeline", "import");
    expect(await listNew(before)).toEqual(ids.map((id) => `${id} batch.paused`));
    const waiting: string[] = [];
    for (const lane of lanes.toReversed()) {
      await rig.cancel(ids[lanes.indexOf(lane)]!);
      waiting.push((await rig.submit({ lane })).id);
    }
    await rig.serve();
    const between = await rig.store.readLastPosition();
    await rig.resume("pipeline", "import");
    expect(await listNew(between)).toEqual(waiting.map((id) => `${id} batch.started`));
  });

  rule("a batch under several pauses runs only after the last one ends", async ({ rig }) => {
    const id = await rig.running([1]);
    const { lane, pipeline } = await rig.get(id);
    await rig.pause("pipeline", pipeline);
    await rig.pause("lane", lane);
    await rig.pause("batch", id);
    for (const [scope, paused] of [
      ["batch", id],
      ["lane", lane],
      ["pipeline", pipeline],
    ] as const) {
      expect((await rig.get(id)).pause).toMatchObject({ scope });
      expect(await rig.lease()).toEqual([]);
      await rig.resume(scope, paused);
    }
    expect(await rig.lease()).toHaveLength(1);
  });

  rule("a new batch in a paused lane or pipeline is paused too", async ({ rig }) => {
    await rig.pause("lane", "main");
    await rig.pause("pipeline", "export");
    const one = await rig.running([1], { lane: "main" });
    const two = await rig.running([1], { pipeline: "export" });
    expect(await rig.lease({ chunksMax: 9 })).toEqual([]);
    expect(await rig.lease({ chunksMax: 9, pipeline: "export" })).toEqual([]);
    await rig.resume("lane", "main");
    await rig.resume("pipeline", "export");
    expect(await rig.lease()).toMatchObject([{ batch: one }]);
    expect(await rig.lease({ pipeline: "export" })).toMatchObject([{ batch: two }]);
  });

  rule("a paused batch is not offered for slicing", async ({ rig }) => {
    const { id } = await rig.submit();
    await rig.pause("batch", id);
    expect(await rig.store.listUnsliced("import", 9)).toEqual([]);
    await rig.resume("batch", id);
    expect(await rig.store.listUnsliced("import", 9)).toMatchObject([{ id }]);
  });

  rule("leased chunks can finish during a pause and end the batch", async ({ rig }) => {
    const id = await rig.running([2]);
    const lease = await rig.leaseOne();
    await rig.pause("batch", id);
    await rig.report(lease, { succeeded: [0], intent: "keep" });
    const { ended } = await rig.store.work([say(lease, { succeeded: [0, 1] })], null);
    expect(ended).toEqual([id]);
    expect(await rig.get(id)).toMatchObject({ state: "succeeded", pause: null });
  });

  rule("leases of a paused batch are renewed and lost like any others", async ({ rig }) => {
    const id = await rig.running([1]);
    const lease = await rig.leaseOne();
    await rig.pause("batch", id, "now");
    expect(await rig.renew([lease], 50)).toEqual([]);
    rig.clock.advance(49);
    expect((await rig.sweep()).lostLeases).toBe(0);
    rig.clock.advance(1);
    expect((await rig.sweep()).lostLeases).toBe(1);
    await rig.resume("batch", id);
    expect(await rig.leaseOne()).toMatchObject({ guarded: true });
  });

  rule("a chunk that was given back during a pause is due when the pause ends", async ({ rig }) => {
    const id = await rig.running([1]);
    const lease = await rig.leaseOne();
    await rig.pause("batch", id, "now");
    await rig.report(lease, { retryInMs: { 0: 700 } });
    expect((await rig.look()).nextDueInMs).toBeNull();
    await rig.resume("batch", id);
    expect((await rig.look()).nextDueInMs).toBe(700);
    rig.clock.advance(700);
    expect(await rig.lease()).toHaveLength(1);
  });

  rule("a step that begins during a pause is sliced and leased afterwards", async ({ rig }) => {
    const id = await rig.running([1], { settings: steps({ name: "one" }, { name: "two" }) });
    const lease = await rig.leaseOne();
    await rig.pause("batch", id);
    await rig.settle(lease);
    expect(await rig.get(id)).toMatchObject({ state: "slicing", step: 1 });
    expect(await rig.store.listUnsliced("import", 9)).toEqual([]);
    await rig.slice(id, [1]);
    expect(await rig.lease({ step: 1 })).toEqual([]);
    await rig.resume("batch", id);
    expect(await rig.lease({ step: 1 })).toHaveLength(1);
  });

  rule("a small batch of a paused pipeline is planned inline and not leased", async ({ rig }) => {
    await rig.pause("pipeline", "import");
    const id = await rig.slicing();
    const [chunk] = [{ items: 3, locator: "here", manifest: null, keys: null }];
    const part = { batch: id, step: 0, afterChunks: 0, fence: 1, cursor: null, part: "p" };
    const answer = await rig.store.planInline({ ...part, chunks: [chunk] }, rig.request());
    expect(answer).toEqual({ kind: "planned", chunks: 1 });
    expect(await rig.get(id)).toMatchObject({ state: "running", counts: { pending: 3 } });
    await rig.resume("pipeline", "import");
    expect(await rig.lease()).toMatchObject([{ batch: id }]);
  });

  rule("a paused batch can be cancelled, can fail and can expire", async ({ rig }) => {
    const deadlineAt = rig.clock.wallMs() + 5;
    const ids = [
      await rig.running([1]),
      await rig.running([1]),
      await rig.running([1], { deadlineAt }),
    ];
    for (const id of ids) await rig.pause("batch", id);
    await rig.cancel(ids[0]!);
    await rig.store.fail(ids[1]!, { code: "X", message: "" });
    rig.clock.advance(5);
    await rig.sweep();
    expect(await Promise.all(ids.map((id) => rig.state(id)))).toEqual([
      "cancelled",
      "failed",
      "expired",
    ]);
  });

  rule("an ended batch is not paused, and it runs when it is reopened", async ({ rig }) => {
    const id = await rig.running([1]);
    const lease = await rig.leaseOne();
    await rig.pause("batch", id);
    await rig.report(lease, { failed: [0] });
    expect(await rig.get(id)).toMatchObject({ state: "completed_with_errors", pause: null });
    const before = await rig.observe(id);
    expect(await rig.pause("batch", id)).toBe(false);
    expect(await rig.resume("batch", id)).toBe(false);
    expect(await rig.observe(id)).toEqual(before);
    await rig.redrive(id);
    expect(await rig.lease()).toHaveLength(1);
  });

  rule("workers learn how to stop from the narrowest pause", async ({ rig }) => {
    const free = await rig.running([1]);
    const id = await rig.running([1]);
    const { lane } = await rig.get(id);
    await rig.pause("lane", lane, "now");
    expect(await rig.store.readStops([free, id])).toEqual([
      { batch: id, kind: "pause", mode: "now" },
    ]);
    await rig.pause("batch", id, "drain");
    expect(await rig.store.readStops([id])).toEqual([{ batch: id, kind: "pause", mode: "drain" }]);
    await rig.cancel(id, "drain");
    const over = await rig.running([]);
    expect(await rig.store.readStops([free, over, id, "unknown"])).toEqual([
      { batch: over, kind: "over", mode: "now" },
      { batch: id, kind: "over", mode: "now" },
      { batch: "unknown", kind: "over", mode: "now" },
    ]);
  });

  rule("pausing a lane or a pipeline is recorded for its running batches", async ({ rig }) => {
    const holder = await rig.running([1], { lane: "main" });
    const waiting = await rig.running([1], { lane: "main" });
    await rig.store.pause({ scope: "lane", name: "main", mode: "drain", ...ME });
    expect(await rig.recorded(holder, "batch.paused")).toHaveLength(1);
    expect(await rig.recorded(waiting, "batch.paused")).toHaveLength(0);
    expect((await rig.get(waiting)).pause).toMatchObject({ scope: "lane" });
  });
}
