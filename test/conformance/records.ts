/** Records: every transition has exactly one, in order, chained so that tampering is detected. */
import { hash } from "node:crypto";
import { expect } from "vitest";
import type { StoredRecord } from "../../src/ports/store/query-store.ts";
import { type Rig, LEASE_MS, manifests, type Rule, SEAL_WITHIN_MS } from "./rig.ts";

const REASON = { code: "SOURCE", message: "the file is gone" };

interface Body {
  readonly v: number;
  readonly seq: number;
  readonly prev: string;
  readonly batch: string;
  readonly type: string;
  readonly at: string;
  readonly data: Record<string, unknown>;
}

const bodyOf = (record: StoredRecord): Body => JSON.parse(record.body) as Body;

/** The lives that a batch can have, and the records of each. */
const LIVES: readonly {
  readonly life: string;
  readonly live: (rig: Rig) => Promise<string>;
  readonly types: readonly string[];
}[] = [
  {
    life: "an empty batch",
    live: (rig) => rig.running([]),
    types: ["started", "slicing", "sliced", "step", "drained", "ended", "released"],
  },
  {
    life: "a batch that succeeds",
    live: async (rig) => {
      const id = await rig.running([1, 1]);
      for (let chunk = 0; chunk < 2; chunk++) await rig.settle(await rig.leaseOne());
      return id;
    },
    types: ["started", "slicing", "sliced", "step", "drained", "ended", "released"],
  },
  {
    life: "an open batch that is sealed before its last item",
    live: async (rig) => {
      const id = await rig.running([1], { open: true });
      await rig.store.seal(id);
      await rig.settle(await rig.leaseOne());
      return id;
    },
    types: ["started", "slicing", "sliced", "sealed", "step", "drained", "ended", "released"],
  },
  {
    life: "an open batch that is sealed after its last item",
    live: async (rig) => {
      const id = await rig.running([1], { open: true });
      await rig.settle(await rig.leaseOne());
      await rig.store.seal(id);
      return id;
    },
    types: ["started", "slicing", "sliced", "sealed", "step", "drained", "ended", "released"],
  },
  {
    life: "a batch that is failed before it starts",
    live: async (rig) => {
      const { id } = await rig.submit();
      await rig.store.fail(id, REASON);
      return id;
    },
    types: ["started", "ended", "released"],
  },
  {
    life: "a batch whose slicing fails",
    live: async (rig) => {
      const id = await rig.slicing();
      await rig.store.fail(id, REASON);
      return id;
    },
    types: ["started", "slicing", "aborted", "ended", "released"],
  },
  {
    life: "a batch that is failed while it runs",
    live: async (rig) => {
      const id = await rig.running([2]);
      await rig.store.fail(id, REASON);
      return id;
    },
    types: ["started", "slicing", "sliced", "step", "drained", "ended", "released"],
  },
  {
    life: "a batch whose producer died",
    live: async (rig) => {
      const id = await rig.running([1], { open: true });
      rig.clock.advance(SEAL_WITHIN_MS);
      await rig.sweep();
      return id;
    },
    types: ["started", "slicing", "sliced", "step", "drained", "ended", "released"],
  },
];

const FULL_NAMES: Readonly<Record<string, string>> = {
  started: "batch.started",
  slicing: "slicing.started",
  sliced: "slicing.finished",
  aborted: "slicing.aborted",
  sealed: "batch.sealed",
  step: "step.ended",
  drained: "batch.drained",
  ended: "batch.ended",
  released: "batch.released",
};

export function describeRecords(rule: Rule): void {
  for (const { life, live, types } of LIVES) {
    rule(`every transition of ${life} has exactly one record, in order`, async ({ rig }) => {
      const id = await live(rig);
      expect(await rig.recordTypes(id)).toEqual([
        "batch.submitted",
        ...types.map((type) => FULL_NAMES[type]),
      ]);
    });

    rule(`the chain of ${life} verifies, and its ending has the true counts`, async ({ rig }) => {
      const id = await live(rig);
      let prev = "0".repeat(64);
      for (const [index, record] of (await rig.records(id)).entries()) {
        const body = bodyOf(record);
        expect(record.hash).toBe(hash("sha256", record.body));
        expect(body).toMatchObject({ v: 1, seq: index + 1, prev, batch: id, type: record.type });
        expect(record).toMatchObject({ batch: id, seq: index + 1 });
        prev = record.hash;
      }
      const { state } = await rig.get(id);
      const { counters, recounted } = await rig.recount(id);
      expect(counters).toEqual(recounted);
      const [ended, released] = (await rig.records(id)).map(bodyOf).slice(-2);
      expect(ended?.data).toMatchObject({ state, drive: 1, counts: recounted });
      expect(released?.data).toEqual({ lane: (await rig.get(id)).lane });
    });
  }

  rule("a record is canonical JSON: sorted keys, no white space", async ({ rig }) => {
    const draft = rig.draft({ key: "monday", lane: "case-7" });
    await rig.store.submit(draft);
    const [record] = await rig.records(draft.id);
    const at = new Date(rig.clock.wallMs()).toISOString();
    expect(record?.body).toBe(
      `{"at":"${at}","batch":"${draft.id}","data":{"inputHash":"${draft.inputHash}","key":"monday",` +
        `"lane":"case-7","pipeline":"import","version":"1"},"prev":"${"0".repeat(64)}","seq":1,` +
        `"type":"batch.submitted","v":1}`,
    );
  });

  rule("the record of an early ending contains its reason", async ({ rig }) => {
    const id = await rig.slicing();
    await rig.plan(id, manifests(2));
    await rig.store.fail(id, REASON);
    const [aborted, ended] = (await rig.records(id)).slice(-3).map(bodyOf);
    expect(aborted?.data).toEqual(REASON);
    expect(ended?.data).toEqual({
      state: "failed",
      drive: 1,
      counts: { planned: 2, succeeded: 0, skipped: 0, failed: 0, cancelled: 2, pending: 0 },
      ...REASON,
    });
  });

  rule(
    "the records of slicing and sealing contain the numbers of items and chunks",
    async ({ rig }) => {
      const id = await rig.running([3, 2], { open: true });
      await rig.plan(id, manifests(4));
      await rig.store.seal(id);
      const bodies = (await rig.records(id)).map(bodyOf);
      const dataOf = (type: string): unknown => bodies.find((body) => body.type === type)?.data;
      expect(dataOf("slicing.finished")).toEqual({ step: 0, items: 5, chunks: 2 });
      expect(dataOf("batch.sealed")).toEqual({ items: 9, chunks: 3 });
    },
  );

  rule("a record carries the wall time of its transition", async ({ rig }) => {
    const { id } = await rig.submit();
    rig.clock.jumpWall(-5_000);
    await rig.store.startSlicing(id, false);
    const [submitted, , started] = (await rig.records(id)).map(bodyOf);
    expect(Date.parse(submitted?.at ?? "") - Date.parse(started?.at ?? "")).toBe(5_000);
  });

  rule("a call that changes nothing writes no record", async ({ rig }) => {
    const id = await rig.running([2], { key: "monday", inputHash: "one" });
    const lease = await rig.leaseOne();
    const before = await rig.store.readRecords(null, 0, 100);
    await rig.store.submit(rig.draft({ key: "monday", inputHash: "one" }));
    await rig.store.submit(rig.draft({ key: "monday", inputHash: "two" }));
    await rig.store.startSlicing(id, true);
    await rig.plan(id, manifests(1));
    await rig.finishSlicing(id, 1);
    await rig.settle({ ...lease, fence: 99 });
    await rig.report(lease, { succeeded: [0], intent: "keep" });
    await rig.renew([lease], LEASE_MS);
    await rig.sweep();
    expect(await rig.store.readRecords(null, 0, 100)).toEqual(before);
  });

  rule("all records of the store are read in order, in pages", async ({ rig }) => {
    const ids = [await rig.running([]), await rig.slicing(), await rig.running([])];
    const all = await rig.store.readRecords(null, 0, 1_000);
    expect(all).toHaveLength(8 + 3 + 8);
    const positions = all.map(({ position }) => position);
    expect(positions).toEqual(positions.toSorted((a, b) => a - b));
    expect(new Set(positions).size).toBe(positions.length);
    const paged: StoredRecord[] = [];
    for (let page = 0; page < 100; page++) {
      const rest = await rig.store.readRecords(null, paged.at(-1)?.position ?? 0, 4);
      if (rest.length === 0) break;
      paged.push(...rest);
    }
    expect(paged).toEqual(all);
    for (const id of ids) {
      expect(await rig.records(id)).toEqual(all.filter(({ batch }) => batch === id));
    }
    const last = await rig.store.readRecords(ids[0]!, all[2]!.position, 2);
    expect(last.map(({ seq }) => seq)).toEqual([4, 5]);
  });

  rule("a reader's position never moves backwards", async ({ rig }) => {
    expect(await rig.store.readPosition("webhook")).toBe(0);
    await rig.store.savePosition("webhook", 7);
    await rig.store.savePosition("webhook", 3);
    await rig.store.savePosition("other", 2);
    expect(await rig.store.readPosition("webhook")).toBe(7);
    expect(await rig.store.readPosition("other")).toBe(2);
  });
}
