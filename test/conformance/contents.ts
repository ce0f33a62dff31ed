/**
 * Content claims: only one item with a content runs. A claim is final only with a committed
 * success.
 */
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

/** Two leased chunks of one batch. */
async function twoOut(rig: Rig): Promise<[LeasedChunk, LeasedChunk]> {
  await rig.running([2, 2]);
  const [one, two] = await rig.lease({ chunksMax: 2 });
  return [one!, two!];
}

export function describeContents(rule: Rule): void {
  rule("a content is claimed once and stays claimed while its item runs", async ({ rig }) => {
    const [one, two] = await twoOut(rig);
    expect(await claim(rig, one, { 0: "a", 1: "b" })).toEqual(["claimed", "claimed"]);
    expect(await claim(rig, two, { 0: "a", 1: "c" })).toEqual(["held", "claimed"]);
    expect(await claim(rig, one, { 0: "a" })).toEqual(["claimed"]);
  });

  rule("only one of two items with the same content runs, even in one chunk", async ({ rig }) => {
    const [one] = await twoOut(rig);
    expect(await claim(rig, one, { 0: "a", 1: "a" })).toEqual(["claimed", "held"]);
  });

  rule("a committed success makes a claim final for every batch", async ({ rig }) => {
    const [one, two] = await twoOut(rig);
    await claim(rig, one, { 0: "a" });
    await rig.report(one, { succeeded: [0], contents: { 0: "a" }, intent: "keep" });
    expect(await claim(rig, two, { 0: "a" })).toEqual(["done"]);
    await rig.running([1]);
    expect(await claim(rig, await rig.leaseOne(), { 0: "a" })).toEqual(["done"]);
  });

  rule("a claim is free at once when its item fails", async ({ rig }) => {
    const [one, two] = await twoOut(rig);
    await claim(rig, one, { 0: "a" });
    await rig.report(one, { failed: [0], contents: { 0: "a" }, intent: "keep" });
    expect(await claim(rig, two, { 0: "a" })).toEqual(["claimed"]);
  });

  rule(
    "a claim is free when its chunk is given back or settled without the claim",
    async ({ rig }) => {
      const [one, two] = await twoOut(rig);
      await claim(rig, one, { 0: "a", 1: "b" });
      await rig.report(one, { succeeded: [0], intent: "yield" });
      expect(await claim(rig, two, { 0: "a", 1: "b" })).toEqual(["claimed", "claimed"]);
    },
  );

  rule(
    "a claim is free when its lease is lost, and the old holder cannot make it final",
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

  rule("only the latest holder of a claim can make it final", async ({ rig }) => {
    await rig.running([1, 1]);
    const first = await rig.leaseOne();
    await claim(rig, first, { 0: "a" });
    await rig.report(first, {});
    const [second, other] = await rig.lease({ chunksMax: 2 });
    expect(await claim(rig, other!, { 0: "a" })).toEqual(["claimed"]);
    // It did not claim the content under this lease, so its success does not make the claim final.
    await rig.report(second!, { succeeded: [0], contents: { 0: "a" } });
    await rig.report(other!, { failed: [0] });
    await rig.running([1]);
    expect(await claim(rig, await rig.leaseOne(), { 0: "a" })).toEqual(["claimed"]);
  });

  rule("a success that does not report its content leaves the claim free", async ({ rig }) => {
    const [one, two] = await twoOut(rig);
    await claim(rig, one, { 0: "a" });
    await rig.report(one, { succeeded: [0, 1] });
    expect(await claim(rig, two, { 0: "a" })).toEqual(["claimed"]);
  });

  rule("all claims of one request are refused when its lease is lost", async ({ rig }) => {
    const [one] = await twoOut(rig);
    await rig.lose();
    expect(await claim(rig, one, { 0: "a" })).toBeNull();
    expect(await claim(rig, { ...one, batch: "unknown" }, { 0: "a" })).toBeNull();
    expect(await claim(rig, await rig.leaseOne(), { 0: "a" })).toEqual(["claimed"]);
  });

  rule("a redriven item can claim its own content again", async ({ rig }) => {
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

  rule("a batch that ended early holds no claims", async ({ rig }) => {
    const id = await rig.running([1]);
    const lease = await rig.leaseOne();
    await claim(rig, lease, { 0: "a" });
    await rig.store.fail(id, { code: "STOP", message: "stop" });
    await rig.running([1]);
    expect(await claim(rig, await rig.leaseOne(), { 0: "a" })).toEqual(["claimed"]);
  });
}
