/** Checkpoints go on from each other, keys stay as they came, and what is erased is gone. */
import { expect } from "vitest";
import type { LedgerBlock } from "../../src/core/item-ledger.ts";
import { nameGroupReader } from "../../src/core/reader-name.ts";
import type { StoredCheckpoint } from "../../src/ports/ledger.ts";
import { findBreak, readChain } from "../support/ledger-reading.ts";
import { type Rule, steps } from "./rig.ts";

const TOPIC = "ledger.checkpoints";
const ANCHORS = nameGroupReader(TOPIC, "anchors");

const point = (size: number, by = "a"): StoredCheckpoint => {
  const text = `${by}${size} \u{1f600} "quoted"`;
  return { size, body: `{"size":${size}}`, signature: text, tree: "00".repeat(size) };
};

export function describeEvidence(rule: Rule): void {
  describeCheckpoints(rule);
  describeErasing(rule);
}

function describeCheckpoints(rule: Rule): void {
  rule("a batch's checkpoints are kept in their order, byte for byte", async ({ rig }) => {
    const { store } = rig;
    const id = await rig.running([1]);
    const other = await rig.running([1]);
    expect(await store.readCheckpoints(id)).toEqual([]);
    for (const [size, after] of [[3, 0] as const, [4, 3] as const, [12, 4] as const]) {
      expect(await store.addCheckpoint(id, point(size), after)).toBe(true);
    }
    expect(await store.readCheckpoints(id)).toEqual([point(3), point(4), point(12)]);
    expect(await store.findCheckpoint(id)).toEqual(point(12));
    for (const none of [other, "b-unknown"]) {
      expect(await store.readCheckpoints(none)).toEqual([]);
      expect(await store.findCheckpoint(none)).toBeNull();
    }
    await expect(store.addCheckpoint("b-unknown", point(1), 0)).rejects.toMatchObject({
      code: "UNKNOWN_BATCH",
    });
  });

  rule("one that does not go on from the last is refused, and is no message", async ({ rig }) => {
    const { store } = rig;
    const id = await rig.running([1]);
    await store.startReader(ANCHORS, "beginning");
    expect(await store.addCheckpoint(id, point(3), 1)).toBe(false);
    expect(await store.addCheckpoint(id, point(3), 0)).toBe(true);
    expect(await store.addCheckpoint(id, point(5), 0)).toBe(false);
    const both = await Promise.all(
      ["a", "b"].map((by, at) => store.addCheckpoint(id, point(7 + at, by), 3)),
    );
    expect(both.filter(Boolean)).toHaveLength(1);
    expect(await store.readCheckpoints(id)).toHaveLength(2);
    expect(await store.readMessages(TOPIC, 0, 10)).toHaveLength(2);
  });

  rule("each is a message where somebody listens, as an export has it", async ({ rig }) => {
    const { store } = rig;
    const id = await rig.running([1]);
    await store.startReader(nameGroupReader("another", "group"), "beginning");
    await store.addCheckpoint(id, point(3), 0);
    expect(await store.readMessages(TOPIC, 0, 10)).toEqual([]);
    await store.startReader(ANCHORS, "beginning");
    await store.addCheckpoint(id, point(5), 3);
    const [message, ...others] = await store.readMessages(TOPIC, 0, 10);
    const { body, signature } = point(5);
    expect(others).toEqual([]);
    expect(message).toMatchObject({ id: `${id}/checkpoint/5`, batch: id, topic: TOPIC });
    expect(JSON.parse(message?.body ?? "")).toEqual({ checkpoint: body, signature });
  });

  rule("keys are kept in the order in which they came, each as it came first", async ({ rig }) => {
    const { store } = rig;
    expect(await store.readKeys()).toEqual([]);
    const key = (id: string, body = id): { id: string; body: string; signature: string } => {
      return { id, body, signature: `by ${id}` };
    };
    for (const one of [key("ff"), key("aa"), key("ff", "another"), key("cc")]) {
      await store.addKey(one);
    }
    expect(await store.readKeys()).toEqual([key("ff"), key("aa"), key("cc")]);
  });
}

function describeErasing(rule: Rule): void {
  rule("details that are erased are gone, and the chain stays whole", async ({ rig }) => {
    const { store } = rig;
    const id = await rig.running([2], { settings: { ...steps({}), ledger: { item: true } } });
    const details = '{"details":1,"i":0}\n{"details":2,"i":1}\n';
    const lines = '{"n":1}\n{"n":2}\n';
    const block: LedgerBlock = { number: 1, count: 2, root: "root", lines, details };
    const lease = await rig.leaseOne();
    await rig.report(lease, { succeeded: [0], blocks: [block], intent: "keep" });
    await rig.report(lease, { succeeded: [0, 1], blocks: [{ ...block, number: 2 }] });
    const before = await readChain(store, id);
    const [first, second] = before.filter((link) => link.block !== null).map(({ seq }) => seq);
    const left = '{"details":2,"i":1}\n';
    await store.eraseDetails(
      id,
      [
        { seq: first ?? 0, details: left },
        { seq: second ?? 0, details: null },
      ],
      { by: "ann", why: "asked for", records: 3 },
    );
    const after = await readChain(store, id);
    expect(findBreak(after)).toBeNull();
    expect(after.flatMap(({ block: one }) => (one === null ? [] : [one]))).toEqual([
      { lines, details: left },
      { lines, details: null },
    ]);
    const bare = (links: typeof before): object[] => links.map(({ seq, hash }) => ({ seq, hash }));
    expect(bare(after).slice(0, -1)).toEqual(bare(before));
    expect(await rig.recorded(id, "details.erased")).toEqual([
      { records: 3, by: "ann", why: "asked for" },
    ]);
  });
}
