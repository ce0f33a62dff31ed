/** Moves in the queue of a lane: only waiting batches move, and only within the queue. */
import { expect } from "vitest";
import { queue, runLane } from "./lanes.ts";
import { ME, type Rule } from "./rig.ts";

export function describeLaneMoves(rule: Rule): void {
  rule("a waiting batch can be moved to the front and to the back", async ({ rig }) => {
    const [a, b, c, d] = (await queue(rig, 4)) as [string, string, string, string];
    expect((await rig.store.moveInLane(d, { to: "front" }, ME)).kind).toBe("done");
    expect((await rig.store.moveInLane(b, { to: "back" }, ME)).kind).toBe("done");
    expect(await runLane(rig)).toEqual([a, d, c, b]);
  });

  rule(
    "a waiting batch can be moved before another one, and its record says so",
    async ({ rig }) => {
      const [a, b, c, d] = (await queue(rig, 4)) as [string, string, string, string];
      const act = { by: "ann", why: "urgent" };
      expect((await rig.store.moveInLane(d, { before: c }, act)).kind).toBe("done");
      expect(await rig.recorded(d, "batch.moved")).toEqual([{ before: c, ...act }]);
      expect(await runLane(rig)).toEqual([a, b, d, c]);
    },
  );

  rule("the last of many moves decides", async ({ rig }) => {
    const [a, b, c, d] = (await queue(rig, 4)) as [string, string, string, string];
    for (let round = 0; round < 60; round++) {
      await rig.store.moveInLane(d, { before: c }, ME);
      await rig.store.moveInLane(c, { before: d }, ME);
    }
    await rig.store.moveInLane(d, { before: c }, ME);
    expect(await runLane(rig)).toEqual([a, b, d, c]);
  });

  rule("a reopened batch comes before batches that were moved to the front", async ({ rig }) => {
    const [reopened] = await queue(rig, 1);
    await rig.report(await rig.leaseOne(), { failed: [0] });
    const [a, b, c] = (await queue(rig, 3)) as [string, string, string];
    await rig.store.moveInLane(b, { to: "front" }, ME);
    await rig.store.moveInLane(c, { to: "front" }, ME);
    await rig.redrive(reopened!);
    expect(await runLane(rig)).toEqual([a, reopened, c, b]);
  });

  rule("a moved batch comes before batches that are submitted later", async ({ rig }) => {
    const [a, b, c] = (await queue(rig, 3)) as [string, string, string];
    await rig.store.moveInLane(b, { to: "back" }, ME);
    const [later] = (await queue(rig, 1)) as [string];
    expect(await runLane(rig)).toEqual([a, c, b, later]);
  });

  rule("only a waiting batch can be moved, and only before a waiting batch", async ({ rig }) => {
    const [holder, waiting] = (await queue(rig, 2)) as [string, string];
    const ended = await rig.running([], { lane: "other" });
    const elsewhere = await rig.running([1], { lane: "other" });
    const elsewhereToo = await rig.running([1], { lane: "other" });
    const before = await rig.store.readRecords(null, 0, 1_000);
    for (const [id, move] of [
      [holder, { to: "back" }],
      [ended, { to: "front" }],
      [waiting, { before: holder }],
      [waiting, { before: waiting }],
      [waiting, { before: ended }],
      [waiting, { before: elsewhere }],
      [waiting, { before: elsewhereToo }],
      [waiting, { before: "unknown" }],
    ] as const) {
      expect(await rig.store.moveInLane(id, move, ME)).toEqual({
        kind: "moved_on",
        batch: await rig.get(id),
      });
    }
    expect(await rig.store.readRecords(null, 0, 1_000)).toEqual(before);
  });

  rule("a parked batch keeps its place when other batches move around it", async ({ rig }) => {
    const [a, b, c, d, e] = (await queue(rig, 5)) as [string, string, string, string, string];
    await rig.store.setLanePolicy("main", "park");
    await rig.pause("batch", b);
    await rig.cancel(a);
    expect((await rig.get(b)).parked).not.toBeNull();
    await rig.store.moveInLane(e, { before: d }, ME);
    await rig.store.moveInLane(d, { to: "front" }, ME);
    await rig.store.moveInLane(e, { to: "back" }, ME);
    await rig.resume("batch", b);
    expect(await runLane(rig)).toEqual([c, d, b, e]);
  });

  rule("a batch that is moved before another comes right before it", async ({ rig }) => {
    const [a, b, c, d] = (await queue(rig, 4)) as [string, string, string, string];
    await rig.store.moveInLane(d, { to: "front" }, ME);
    await rig.store.moveInLane(c, { before: b }, ME);
    await rig.store.moveInLane(c, { before: d }, ME);
    await rig.store.moveInLane(d, { before: b }, ME);
    expect(await runLane(rig)).toEqual([a, c, d, b]);
  });
}
