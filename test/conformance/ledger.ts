/** With a ledger of items, every change of a chunk is one link in the chain of its batch. */
import { hash } from "node:crypto";
import { expect } from "vitest";
import { LEDGER_PAGE_CHARS, type LedgerBlock } from "../../src/core/ledger/item-ledger.ts";
import type { StepSettings } from "../../src/core/batch/step.ts";
import type { Submission } from "../../src/ports/store/conductor-store.ts";
import {
  findBreak,
  foldOutcomes,
  listChanges,
  readChain,
  type ToldChange,
} from "../support/ledger-reading.ts";
import { allOf, type Rig, type Rule, say, steps } from "./rig.ts";

/** The settings of a batch that keeps a ledger of its items. */
function kept(change: Partial<StepSettings> = {}): Pick<Submission, "settings"> {
  return { settings: { ...steps(change), ledger: { item: true } } };
}

function makeBlock(number: number, lines = `{"n":${number}}\n`): LedgerBlock {
  const count = lines.split("\n").length - 1;
  return { number, count, root: hash("sha256", lines), lines, details: null };
}

/** The links about items in the chain of a batch. The chain must be unbroken. */
async function tell(rig: Rig, id: string): Promise<ToldChange[]> {
  const links = await readChain(rig.store, id);
  expect(findBreak(links)).toBeNull();
  return listChanges(links);
}

/** Checks that the chain and the store agree about each item. */
async function expectAgreement(rig: Rig, id: string): Promise<void> {
  const changes = await tell(rig, id);
  for (const [step, { counts }] of (await rig.get(id)).steps.entries()) {
    const { outcomes, faults } = foldOutcomes(changes, step);
    expect(faults).toEqual([]);
    for (let item = 0; item < counts.planned; item++) {
      const place = await rig.store.findItem(id, step, item);
      expect(`${item} ${outcomes.get(item) ?? "pending"}`).toBe(`${item} ${place?.outcome}`);
    }
  }
}

export function describeLedger(rule: Rule): void {
  describeKeeping(rule);
  describeBlocks(rule);
  describeOwnDecisions(rule);
  describeRedriving(rule);
  describePages(rule);
}

function describeKeeping(rule: Rule): void {
  rule("a batch without a ledger records no items, and its lease says so", async ({ rig }) => {
    const id = await rig.running([2]);
    const lease = await rig.leaseOne();
    expect(lease).not.toHaveProperty("ledger");
    await rig.settle(lease);
    const links = await readChain(rig.store, id);
    expect(links.map(({ type }) => type)).toEqual(await rig.recordTypes(id));
    expect(findBreak(links)).toBeNull();
    expect(await rig.recorded(id, "batch.submitted")).not.toContainEqual(
      expect.objectContaining({ itemLedger: true }),
    );
  });

  rule("every report that changes something adds one link", async ({ rig }) => {
    const id = await rig.running([4], kept());
    const lease = await rig.leaseOne();
    expect(lease.ledger).toBe(true);
    const { fence } = lease;
    await rig.report(lease, { succeeded: [0, 1], retryInMs: { 3: 0 }, intent: "keep" });
    await rig.report(lease, { succeeded: [0, 1, 2], intent: "keep" });
    await rig.report(lease, { succeeded: [0, 1, 2], failed: [3], attempts: 2 });
    const common = { step: 0, chunk: 0, fence, worker: rig.worker };
    const tried = { item: 3, key: "key-3" };
    const again = { ...tried, attempts: 1, code: "ECONNRESET", class: "transient" };
    const over = { ...tried, attempts: 2, code: "BAD_INPUT", class: "permanent" };
    expect(await tell(rig, id)).toEqual([
      { ...common, succeeded: "0-1", retried: [again] },
      { ...common, succeeded: "2" },
      { ...common, failed: [over] },
    ]);
    expect(await rig.recorded(id, "batch.submitted")).toMatchObject([{ itemLedger: true }]);
    await expectAgreement(rig, id);
  });

  rule(
    "a link comes before the ending that it causes and is not delivered as an event",
    async ({ rig }) => {
      const id = await rig.running([1], kept());
      await rig.settle(await rig.leaseOne());
      const types = (await readChain(rig.store, id)).map(({ type }) => type);
      expect(types.indexOf("items.recorded")).toBeLessThan(types.indexOf("step.ended"));
      expect(types.at(-1)).toBe("batch.released");
      const events = [...(await rig.records(id)), ...(await rig.store.readRecords(null, 0, 1_000))];
      expect(events.map(({ type }) => type)).not.toContain("items.recorded");
      expect(await rig.store.readLastPosition()).toBe(events.at(-1)?.position);
    },
  );

  rule("a repeated or late report adds no link", async ({ rig }) => {
    const id = await rig.running([2, 2], kept());
    const lease = await rig.leaseOne();
    const report = say(lease, { succeeded: [0], blocks: [makeBlock(1)], intent: "keep" });
    await rig.store.work([report], null);
    const once = await readChain(rig.store, id);
    await rig.store.work([report], null);
    await rig.store.work([report, report], null);
    expect(await readChain(rig.store, id)).toEqual(once);
    await rig.lose();
    const lost = await readChain(rig.store, id);
    expect(await rig.store.work([report], null)).toMatchObject({ reports: ["lost"] });
    expect(await readChain(rig.store, id)).toEqual(lost);
  });

  rule(
    "one call with reports on several chunks and batches adds a link for each",
    async ({ rig }) => {
      const one = await rig.running([1, 2, 3], kept());
      const other = await rig.running([1], kept());
      const plain = await rig.running([1]);
      const leases = await rig.lease({ chunksMax: 10 });
      const reports = leases.map((lease) => say(lease, { succeeded: allOf(lease) }));
      await rig.store.work(reports, null);
      const ranges = async (id: string): Promise<string[]> =>
        (await tell(rig, id)).map(({ chunk, succeeded }) => `${chunk}: ${succeeded}`);
      expect((await ranges(one)).toSorted()).toEqual(["0: 0", "1: 1-2", "2: 3-5"]);
      expect(await ranges(other)).toEqual(["0: 0"]);
      expect(await ranges(plain)).toEqual([]);
    },
  );
}

function describeBlocks(rule: Rule): void {
  rule(
    "the block that a handler recorded is stored unchanged, beside the link with its root",
    async ({ rig }) => {
      const id = await rig.running([1], kept());
      const lines = '{"key":"ünï\\u0000 ☃ 😀 \uE000","state":"A"}\n{"state":"B"}\n';
      const block = { ...makeBlock(1, lines), details: '{"i":0,"details":"\\"\\\\"}\n' };
      await rig.report(await rig.leaseOne(), { succeeded: [0], blocks: [block] });
      const link = (await readChain(rig.store, id)).find(({ type }) => type === "items.recorded");
      expect(link?.block).toEqual({ lines, details: block.details });
      const { number, count, root } = block;
      expect(await tell(rig, id)).toMatchObject([
        { succeeded: "0", block: { number, count, root } },
      ]);
    },
  );

  rule(
    "a block is written once under its lease, whatever else the report contains",
    async ({ rig }) => {
      const id = await rig.running([3], kept());
      const lease = await rig.leaseOne();
      const [first, second, third] = [makeBlock(1), makeBlock(2), makeBlock(3)];
      await rig.report(lease, { succeeded: [0], blocks: [first], intent: "keep" });
      await rig.report(lease, {
        succeeded: [0, 1],
        blocks: [first, second, third],
        intent: "keep",
      });
      await rig.report(lease, { succeeded: [0, 1], blocks: [third], intent: "keep" });
      const told = await tell(rig, id);
      expect(told.map(({ succeeded, block }) => [succeeded, block?.number])).toEqual([
        ["0", 1],
        [undefined, 2],
        ["1", 3],
      ]);
    },
  );

  rule("a block adds a link even if its report changes nothing", async ({ rig }) => {
    const id = await rig.running([1], kept());
    const lease = await rig.leaseOne();
    await rig.report(lease, { blocks: [makeBlock(1)], intent: "keep" });
    await rig.report(lease, { blocks: [makeBlock(2)] });
    const again = await rig.leaseOne();
    await rig.report(again, { succeeded: [0], blocks: [makeBlock(1)] });
    const told = await tell(rig, id);
    expect(told.map(({ fence, block }) => [fence, block?.number])).toEqual([
      [lease.fence, 1],
      [lease.fence, 2],
      [again.fence, 1],
    ]);
  });
}

function describeOwnDecisions(rule: Rule): void {
  rule("a lost lease adds a link that names its worker", async ({ rig }) => {
    const id = await rig.running([2], kept());
    const { fence } = await rig.leaseOne();
    await rig.lose();
    expect(await tell(rig, id)).toEqual([
      { step: 0, chunk: 0, fence, worker: rig.worker, cause: "lost" },
    ]);
  });

  rule("the conviction of a poison item adds a link that names its worker", async ({ rig }) => {
    const id = await rig.running([1], kept());
    await rig.leaseOne();
    await rig.lose();
    for (let death = 1; death <= 2; death++) {
      const lease = await rig.leaseOne();
      await rig.report(lease, { starting: [0], intent: "keep" });
      await rig.lose();
    }
    const told = await tell(rig, id);
    expect(told.at(-1)).toMatchObject({ failed: [{ item: 0, code: "POISON" }], cause: "lost" });
    expect(told.filter(({ cause }) => cause === "lost")).toHaveLength(3);
    expect((await rig.get(id)).state).toBe("completed_with_errors");
    await expectAgreement(rig, id);
  });

  rule("the link of a given-up stalled chunk names no worker", async ({ rig }) => {
    const id = await rig.running([2, 1], kept());
    await rig.serve();
    for (let look = 0; look < 10 && (await rig.state(id)) === "running"; look++) {
      rig.clock.advance(600_000);
      await rig.sweep();
    }
    const told = await tell(rig, id);
    expect(told.map(({ chunk, cause, failed }) => [chunk, cause, failed?.length])).toEqual([
      [0, "stalled", 2],
      [1, "stalled", 1],
    ]);
    expect(told[0]).not.toHaveProperty("worker");
    await expectAgreement(rig, id);
  });

  rule("a cancel adds no link: items without an outcome are cancelled", async ({ rig }) => {
    const id = await rig.running([2, 2], kept());
    const lease = await rig.leaseOne();
    await rig.cancel(id, "drain");
    await rig.report(lease, { succeeded: [0], blocks: [makeBlock(1)] });
    expect(await rig.state(id)).toBe("cancelled");
    expect(await tell(rig, id)).toMatchObject([{ succeeded: "0", block: { number: 1 } }]);
    await expectAgreement(rig, id);
  });

  rule("an item whose statements were refused is failed in the chain", async ({ rig, skip }) => {
    if (rig.store.dialect === undefined) return skip("this store has no SQL");
    const id = await rig.running([2], kept());
    const commits = { 1: [{ sql: "SELECT * FROM no_such_table", values: [] }] };
    const said = { succeeded: [0, 1], commits, commitRetryInMs: null };
    await rig.report(await rig.leaseOne(), said);
    expect(await tell(rig, id)).toMatchObject([
      { succeeded: "0", failed: [{ item: 1, code: "COMMIT_WITH_FAILED" }] },
    ]);
    await expectAgreement(rig, id);
  });
}

function describeRedriving(rule: Rule): void {
  rule("a redrive by hand adds a link that names its items", async ({ rig }) => {
    const id = await rig.running([2, 2], kept());
    await rig.runAll(id, (lease) => ({ failed: allOf(lease) }));
    await rig.redrive(id, { filter: { items: [1, 2] } });
    const told = (await tell(rig, id)).filter(({ redriven }) => redriven !== undefined);
    expect(told.map(({ chunk, redriven, drive }) => [chunk, redriven, drive])).toEqual([
      [0, "1", 2],
      [1, "2", 2],
    ]);
    expect(told[0]).not.toHaveProperty("worker");
    await rig.runAll(id, (lease) => ({ succeeded: allOf(lease).slice(0, 2) }));
    await expectAgreement(rig, id);
  });

  rule("an automatic pass adds a link that names its items", async ({ rig }) => {
    const id = await rig.running([2], kept({ maxRedrives: 1 }));
    const transient = { errorClass: "transient", code: "ECONNRESET" } as const;
    await rig.runAll(id, () => ({ succeeded: [0], failed: [1], ...transient }));
    expect((await tell(rig, id)).at(-1)).toMatchObject({ redriven: "1", drive: 2 });
    await rig.runAll(id, () => ({ failed: [1], ...transient }));
    expect((await tell(rig, id)).at(-1)).toMatchObject({ failed: [{ item: 1, drive: 2 }] });
    expect(await rig.state(id)).toBe("completed_with_errors");
    await expectAgreement(rig, id);
  });
}

function describePages(rule: Rule): void {
  rule("a chain is read in pages, in order, from any link", async ({ rig }) => {
    const id = await rig.running([1, 1, 1], kept());
    await rig.runAll(id, (lease) => ({ succeeded: [0], blocks: [makeBlock(lease.chunk + 1)] }));
    const whole = await rig.store.readLedger(id, 0, 1_000);
    expect(whole.map(({ seq }) => seq)).toEqual(whole.map((_, at) => at + 1));
    expect(await readChain(rig.store, id, 2)).toEqual(whole);
    expect(await rig.store.readLedger(id, 3, 2)).toEqual(whole.slice(3, 5));
    expect(await rig.store.readLedger(id, whole.length, 10)).toEqual([]);
    expect(await rig.store.readLedger("unknown", 0, 10)).toEqual([]);
  });

  rule("a page never exceeds its limit and is never empty before the end", async ({ rig }) => {
    const id = await rig.running([1, 1, 1], kept());
    const lines = `${"x".repeat(Math.floor(LEDGER_PAGE_CHARS / 2))}\n`;
    await rig.runAll(id, (lease) => ({
      succeeded: [0],
      blocks: [makeBlock(1, lease.chunk === 1 ? lines.repeat(3) : lines)],
    }));
    const pages: number[] = [];
    for (let seq = 0; ; ) {
      const page = await rig.store.readLedger(id, seq, 1_000);
      if (page.length === 0) break;
      pages.push(page.filter(({ type }) => type === "items.recorded").length);
      seq = page.at(-1)?.seq ?? 0;
    }
    expect(pages).toEqual([1, 1, 1]);
  });

  rule("retention deletes the chain together with the evidence, not before", async ({ rig }) => {
    const id = await rig.running([1], kept());
    await rig.report(await rig.leaseOne(), { succeeded: [0], blocks: [makeBlock(1)] });
    const before = await readChain(rig.store, id);
    rig.clock.advance(1_000);
    const policy = { dryRun: false, scratchAgeMs: 1, evidenceAgeMs: null };
    await rig.store.prune(policy);
    expect(await readChain(rig.store, id)).toEqual(before);
    await rig.store.prune({ ...policy, evidenceAgeMs: 1 });
    expect(await readChain(rig.store, id)).toEqual([]);
    // A new submission begins a chain of its own.
    await rig.submit({ id, ...kept() });
    expect((await readChain(rig.store, id)).map(({ type }) => type)).toEqual([
      "batch.submitted",
      "batch.started",
    ]);
  });
}
