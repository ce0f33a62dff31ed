/** Signed heads follow each other, public keys stay in order, and erased details are gone. */
import { expect } from "vitest";
import type { LedgerBlock } from "../../src/core/ledger/item-ledger.ts";
import { nameGroupReader } from "../../src/core/events/reader-name.ts";
import type { StoredSignedHead } from "../../src/ports/store/ledger-store.ts";
import { findBreak, readChain } from "../support/ledger-reading.ts";
import { type Rig, type Rule, steps } from "./rig.ts";

const TOPIC = "ledger.heads";
const ANCHORS = nameGroupReader(TOPIC, "anchors");

const point = (size: number, by = "a"): StoredSignedHead => {
  const text = `${by}${size} \u{1f600} "quoted"`;
  return { size, body: `{"size":${size}}`, signature: text, tree: "00".repeat(size) };
};

export function describeEvidence(rule: Rule): void {
  describeSignedHeads(rule);
  describeErasing(rule);
}

function describeSignedHeads(rule: Rule): void {
  rule("signed heads of a batch are kept in order, byte for byte", async ({ rig }) => {
    const { store } = rig;
    const id = await rig.running([1]);
    const other = await rig.running([1]);
    expect(await store.readSignedHeads(id)).toEqual([]);
    for (const [size, after] of [[3, 0] as const, [4, 3] as const, [12, 4] as const]) {
      expect(await store.addSignedHead(id, point(size), after)).toBe(true);
    }
    expect(await store.readSignedHeads(id)).toEqual([point(3), point(4), point(12)]);
    expect(await store.findSignedHead(id)).toEqual(point(12));
    for (const none of [other, "b-unknown"]) {
      expect(await store.readSignedHeads(none)).toEqual([]);
      expect(await store.findSignedHead(none)).toBeNull();
    }
    await expect(store.addSignedHead("b-unknown", point(1), 0)).rejects.toMatchObject({
      code: "NOT_FOUND",
      kind: "batch",
    });
  });

  rule(
    "a signed head that does not follow the last one is refused and sends no message",
    async ({ rig }) => {
      const { store } = rig;
      const id = await rig.running([1]);
      await store.startReader(ANCHORS, "beginning");
      expect(await store.addSignedHead(id, point(3), 1)).toBe(false);
      expect(await store.addSignedHead(id, point(3), 0)).toBe(true);
      expect(await store.addSignedHead(id, point(5), 0)).toBe(false);
      const both = await Promise.all(
        ["a", "b"].map((by, at) => store.addSignedHead(id, point(7 + at, by), 3)),
      );
      expect(both.filter(Boolean)).toHaveLength(1);
      expect(await store.readSignedHeads(id)).toHaveLength(2);
      expect(await store.readMessages(TOPIC, 0, 10)).toHaveLength(2);
    },
  );

  rule(
    "a signed head becomes a message, in the form of an export, if its topic has a group",
    async ({ rig }) => {
      const { store } = rig;
      const id = await rig.running([1]);
      await store.startReader(nameGroupReader("another", "group"), "beginning");
      await store.addSignedHead(id, point(3), 0);
      expect(await store.readMessages(TOPIC, 0, 10)).toEqual([]);
      await store.startReader(ANCHORS, "beginning");
      await store.addSignedHead(id, point(5), 3);
      const [message, ...others] = await store.readMessages(TOPIC, 0, 10);
      const { body, signature } = point(5);
      expect(others).toEqual([]);
      expect(message).toMatchObject({ id: `${id}/head/5`, batch: id, topic: TOPIC });
      expect(JSON.parse(message?.body ?? "")).toEqual({ head: body, signature });
    },
  );

  rule(
    "public keys are kept in the order of their first arrival and are not replaced",
    async ({ rig }) => {
      const { store } = rig;
      expect(await store.readKeys()).toEqual([]);
      const key = (id: string, body = id): { id: string; body: string; signature: string } => {
        return { id, body, signature: `by ${id}` };
      };
      for (const one of [key("ff"), key("aa"), key("ff", "another"), key("cc")]) {
        await store.addKey(one);
      }
      expect(await store.readKeys()).toEqual([key("ff"), key("aa"), key("cc")]);
    },
  );
}

const LINES = '{"n":1}\n{"n":2}\n';
const FIRST = '{"details":1,"i":0}\n';
const SECOND = '{"details":2,"i":1}\n';
const BOTH = FIRST + SECOND;
const ANN = { by: "ann", why: "asked for" };

/** A batch whose chain has two blocks of two records with details each. Returns their positions. */
async function recordDetails(rig: Rig): Promise<{ id: string; first: number; second: number }> {
  const id = await rig.running([2], { settings: { ...steps({}), ledger: { item: true } } });
  const block: LedgerBlock = { number: 1, count: 2, root: "root", lines: LINES, details: BOTH };
  const lease = await rig.leaseOne();
  await rig.report(lease, { succeeded: [0], blocks: [block], intent: "keep" });
  await rig.report(lease, { succeeded: [0, 1], blocks: [{ ...block, number: 2 }] });
  const links = (await readChain(rig.store, id)).filter((link) => link.block !== null);
  const [first = 0, second = 0] = links.map(({ seq }) => seq);
  return { id, first, second };
}

async function readBlocks(rig: Rig, id: string): Promise<unknown[]> {
  const links = await readChain(rig.store, id);
  expect(findBreak(links)).toBeNull();
  return links.flatMap(({ block }) => block ?? []);
}

function describeErasing(rule: Rule): void {
  rule("erased details are gone, and the chain stays valid", async ({ rig }) => {
    const { store } = rig;
    const { id, first, second } = await recordDetails(rig);
    const before = await readChain(store, id);
    const kept = [
      { seq: first, was: BOTH, details: SECOND, records: 1 },
      { seq: second, was: BOTH, details: null, records: 2 },
    ];
    expect(await store.eraseDetails(id, kept, ANN)).toBe(3);
    expect(await readBlocks(rig, id)).toEqual([
      { lines: LINES, details: SECOND },
      { lines: LINES, details: null },
    ]);
    const after = await readChain(store, id);
    const bare = (links: typeof before): object[] => links.map(({ seq, hash }) => ({ seq, hash }));
    expect(bare(after).slice(0, -1)).toEqual(bare(before));
    expect(await rig.recorded(id, "details.erased")).toEqual([{ records: 3, ...ANN }]);
  });

  rule("a late eraser does not restore details that another one has erased", async ({ rig }) => {
    const { store } = rig;
    const { id, first, second } = await recordDetails(rig);
    const late = [
      { seq: first, was: BOTH, details: FIRST, records: 1 },
      { seq: second, was: BOTH, details: FIRST, records: 1 },
    ];
    const early = { seq: first, was: BOTH, details: SECOND, records: 1 };
    expect(await store.eraseDetails(id, [early], ANN)).toBe(1);
    expect(await store.eraseDetails(id, late, { by: "bob", why: null })).toBe(1);
    expect(await readBlocks(rig, id)).toEqual([
      { lines: LINES, details: SECOND },
      { lines: LINES, details: FIRST },
    ]);
    expect(await rig.recorded(id, "details.erased")).toEqual([
      { records: 1, ...ANN },
      { records: 1, by: "bob" },
    ]);
  });

  rule(
    "when two erase the same details at once, one of them does, and one record is written",
    async ({ rig }) => {
      const { store } = rig;
      const { id, first } = await recordDetails(rig);
      const erase = (details: string): Promise<number> =>
        store.eraseDetails(id, [{ seq: first, was: BOTH, details, records: 1 }], ANN);
      const counts = await Promise.all([erase(FIRST), erase(SECOND)]);
      expect(counts.toSorted()).toEqual([0, 1]);
      expect(await rig.recorded(id, "details.erased")).toEqual([{ records: 1, ...ANN }]);
    },
  );

  rule("a batch without erased details has no record of an erasure", async ({ rig }) => {
    const { store } = rig;
    const { id, first } = await recordDetails(rig);
    const before = await readChain(store, id);
    const stale = { seq: first, was: SECOND, details: null, records: 1 };
    const nowhere = { seq: 1_000, was: BOTH, details: null, records: 2 };
    // A record that has no block.
    const bare = { seq: 1, was: BOTH, details: null, records: 2 };
    expect(await store.eraseDetails(id, [stale, nowhere, bare], ANN)).toBe(0);
    expect(await store.eraseDetails(id, [], ANN)).toBe(0);
    expect(await readChain(store, id)).toEqual(before);
  });
}
