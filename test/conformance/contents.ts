/** Contents: worked on once, however many items have them; final only with a committed success. */
import { expect } from "vitest";
import type { ItemContent } from "../../src/core/items/report.ts";
import type { LeasedChunk } from "../../src/ports/store/worker-store.ts";
import type { Rig, Rule } from "./rig.ts";

/** Claims contents for items of a leased chunk, by position. */
async function claim(
  rig: Rig,
  lease: LeasedChunk,
  byPosition: Readonly<Record<number, string>>,
): Promise<readonly string[] | null> {
  const contents: ItemContent[] = Object.entries(byPosition).map(([index, content]) => ({
    index: Number(index),
    content,
  }));
  return rig.store.claimContents(lease, contents);
}

/** Two chunks of a batch that are both out. */
async function twoOut(rig: Rig): Promise<[LeasedChunk, LeasedChunk]> {
  await rig.running([2, 2]);
  const [one, two] = await rig.lease({ chunksMax: 2 });
  return [one!, two!];
}

export function describeContents(rule: Rule): void {
  rule("a content is claimed once, and held while its item is under way", async ({ rig }) => {
    const [one, two] = await twoOut(rig);
    expect(await claim(rig, one, { 0: "a", 1: "b" })).toEqual(["claimed", "claimed"]);
    expect(await claim(rig, two, { 0: "a", 1: "c" })).toEqual(["held", "claimed"]);
    expect(await claim(rig, one, { 0: "a" })).toEqual(["claimed"]);
  });

  rule("two items of one chunk with one content do not run both", async ({ rig }) => {
    const [one] = await twoOut(rig);
    expect(await claim(rig, one, { 0: "a", 1: "a" })).toEqual(["claimed", "held"]);
  });

  rule("a committed success makes a claim final, for every batch", async ({ rig }) => {
    const [one, two] = await twoOut(rig);
    await claim(rig, one, { 0: "a" });
    await rig.report(one, { succeeded: [0], contents: { 0: "a" }, intent: "keep" });
    expect(await claim(rig, two, { 0: "a" })).toEqual(["done"]);
    await rig.running([1]);
    expect(await claim(rig, await rig.leaseOne(), { 0: "a" })).toEqual(["done"]);
  });

  rule("a claim whose item failed is free at once", async ({ rig }) => {
    const [one, two] = await twoOut(rig);
    await claim(rig, one, { 0: "a" });
    await rig.report(one, { failed: [0], contents: { 0: "a" }, intent: "keep" });
    expect(await claim(rig, two, { 0: "a" })).toEqual(["claimed"]);
  });

  rule("a claim is free when its chunk is given back or settled without it", async ({ rig }) => {
    const [one, two] = await twoOut(rig);
    await claim(rig, one, { 0: "a", 1: "b" });
    await rig.report(one, { succeeded: [0], intent: "yield" });
    expect(await claim(rig, two, { 0: "a", 1: "b" })).toEqual(["claimed", "claimed"]);
  });

  rule(
    "a claim is free when its lease is lost, and its old holder finishes nothing",
    async ({ rig }) => {
      const [one, two] = await twoOut(rig);
      await claim(rig, one, { 0: "a" });
      await rig.renew([two], 100_000);
      await rig.lose();
      expect(await claim(rig, two, { 0: "a" })).toEqual(["claimed"]);
      expect(await rig.report(one, { succeeded: [0], contents: { 0: "a" } })).toBe("lost");
      const again = await rig.leaseOne();
      expect(await claim(rig, again, { 0: "a" })).toEqual(["held"]);
    },
  );

  rule("whoever took a content over finishes it, and not the one before", async ({ rig }) => {
    await rig.running([1, 1]);
    const first = await rig.leaseOne();
    await claim(rig, first, { 0: "a" });
    await rig.report(first, {});
    const [second, other] = await rig.lease({ chunksMax: 2 });
    expect(await claim(rig, other!, { 0: "a" })).toEqual(["claimed"]);
    // It never claimed the content in this lease: its success says nothing of it.
    await rig.report(second!, { succeeded: [0], contents: { 0: "a" } });
    await rig.report(other!, { failed: [0] });
    await rig.running([1]);
    expect(await claim(rig, await rig.leaseOne(), { 0: "a" })).toEqual(["claimed"]);
  });

  rule("a success without a report of its content leaves it free", async ({ rig }) => {
    const [one, two] = await twoOut(rig);
    await claim(rig, one, { 0: "a" });
    await rig.report(one, { succeeded: [0, 1] });
    expect(await claim(rig, two, { 0: "a" })).toEqual(["claimed"]);
  });

  rule("a claim whose lease is lost is refused as a whole", async ({ rig }) => {
    const [one] = await twoOut(rig);
    await rig.lose();
    expect(await claim(rig, one, { 0: "a" })).toBeNull();
    expect(await claim(rig, { ...one, batch: "nobody" }, { 0: "a" })).toBeNull();
    expect(await claim(rig, await rig.leaseOne(), { 0: "a" })).toEqual(["claimed"]);
  });

  rule("an item that is redriven may claim its own content again", async ({ rig }) => {
    const id = await rig.running([1]);
    const lease = await rig.leaseOne();
    await claim(rig, lease, { 0: "a" });
    await rig.report(lease, { failed: [0] });
    await rig.redrive(id);
    const again = await rig.leaseOne();
    expect(await claim(rig, again, { 0: "a" })).toEqual(["claimed"]);
    await rig.report(again, { succeeded: [0], contents: { 0: "a" } });
    await rig.running([1]);
    expect(await claim(rig, await rig.leaseOne(), { 0: "a" })).toEqual(["done"]);
  });

  rule("a batch that ended early holds nothing", async ({ rig }) => {
    const id = await rig.running([1]);
    const lease = await rig.leaseOne();
    await claim(rig, lease, { 0: "a" });
    await rig.store.fail(id, { code: "STOP", message: "stop" });
    await rig.running([1]);
    expect(await claim(rig, await rig.leaseOne(), { 0: "a" })).toEqual(["claimed"]);
  });
}
