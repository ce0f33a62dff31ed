/** What a reader learns who has only an export and the public key. */
import { chmodSync, statSync } from "node:fs";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect } from "vitest";
import { PermanentError, TransientError } from "../../../src/core/base/errors.ts";
import { openKeyFile, rotateKeyFile } from "../../../src/ledger/keys/key-file.ts";
import { type ItemHistory, readItemHistories } from "../../../src/ledger/verify/timeline.ts";
import { isConclusive, type Verdict } from "../../../src/ledger/verify/verdict.ts";
import { verifyExport } from "../../../src/ledger/verify/verify-export.ts";
import type { Engine } from "../../../src/runtime/engine/engine.ts";
import { skipped } from "../../../src/runtime/pipeline/outcomes.ts";
import { definePipeline, type Pipeline } from "../../../src/runtime/pipeline/pipeline.ts";
import { exportPem } from "../../support/ledger-export.ts";
import { verifyNaively } from "../../support/naive-verifier.ts";
import { describeOnStores, type EngineRig, makeSignal, numbers } from "./engine-rig.ts";

const HEADS = "ledger.heads";
const ledger = { item: true, states: ["RECEIVED", "STORED"] } as const;
const retry = { attempts: 3, baseMs: 1, capMs: 2 };
const WITHIN_MS = 20_000;

const nameKey = (rig: EngineRig): string => join(rig.folder, "ledger.key");
const readPem = (rig: EngineRig): string => exportPem(openKeyFile(nameKey(rig), "").key);

async function exportWhole(engine: Engine, batch: string): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const piece of engine.exportLedger(batch)) pieces.push(piece);
  return Buffer.concat(pieces);
}

/** Resolves when the signing job has processed every record. */
async function exportSigned(engine: Engine, batch: string): Promise<Buffer> {
  expect(await engine.waitForSubscribers({ withinMs: WITHIN_MS })).toBe(true);
  return exportWhole(engine, batch);
}

/** Both verifiers check it. */
async function verify(exported: Buffer, pem: string, anchors: string[] = []): Promise<Verdict> {
  const verdict = await verifyExport([exported], { trusted: [pem], anchors });
  expect(verifyNaively(exported, { pem, anchors }) === null).toBe(verdict.kind === "intact");
  return verdict;
}

/** What a handler records. */
interface Noted {
  readonly item: number;
  readonly what: string;
  readonly attempt: number;
  readonly engine: string;
  readonly fromMs: number;
  toMs: number;
}

function definePapers(noted: Noted[], engine: string): Pipeline<number, number[]> {
  return definePipeline({
    name: "papers",
    ledger,
    retry,
    maxRedrives: 0,
    chunkSize: 7,
    concurrency: 3,
    key: (n: number) => `paper-${n}`,
    process: async (n: number, { record, attempt }) => {
      const say = (what: string, act: () => void = () => undefined): void => {
        const fromMs = Date.now();
        act();
        noted.push({ item: n, what, attempt, engine, fromMs, toMs: Date.now() });
      };
      say("RECEIVED", () => record("RECEIVED", { n }));
      await nextTurn();
      if (n % 10 === 3 && attempt < 3) {
        say("retried BUSY");
        throw new TransientError("not yet", { code: "BUSY" });
      }
      if (n % 10 === 5) {
        say("failed BROKEN");
        throw new PermanentError("never", { code: "BROKEN" });
      }
      if (n % 10 === 7) {
        say("skipped");
        return skipped();
      }
      say("STORED", () => record("STORED"));
      say("succeeded");
      return undefined;
    },
  });
}

const tell = ({ entries }: ItemHistory): string[] =>
  entries.map(({ state, code }) => (code === null ? state : `${state} ${code}`));

describeOnStores("evidence", (test) => {
  test("an export and a public key show what each handler did, when and where", async ({ rig }) => {
    const noted: Noted[] = [];
    const options = { ledger: { keyFile: nameKey(rig) } };
    const one = await rig.start(options);
    const other = await rig.startBeside(options);
    other.work(definePapers(noted, "other"));
    const handle = await one.submit(definePapers(noted, "one"), numbers(60));
    await handle.wait();
    const exported = await exportSigned(one, handle.id);
    const verdict = await verify(exported, readPem(rig));
    expect(verdict).toMatchObject({ kind: "intact", ended: "completed_with_errors" });
    expect(isConclusive(verdict)).toBe(true);

    const histories = await readItemHistories(
      () => [exported],
      () => true,
    );
    expect(histories.map(({ key }) => key)).toEqual(numbers(60).map((n) => `paper-${n}`));
    const workers = new Map<string, Set<number | null>>();
    for (const history of histories) {
      const own = noted.filter(({ item }) => item === history.item);
      expect(tell(history)).toEqual(own.map(({ what }) => what));
      for (const [
        at,
        { record, at: instant, attempt, worker, details },
      ] of history.entries.entries()) {
        const mine = own[at]!;
        if (attempt !== null) expect(attempt).toBe(mine.attempt);
        workers.set(mine.engine, (workers.get(mine.engine) ?? new Set()).add(worker));
        // The engine's own records come with its commit, some time after.
        const isRecorded = record.includes("/");
        expect(Date.parse(instant)).toBeGreaterThanOrEqual(mine.fromMs);
        if (isRecorded) expect(Date.parse(instant)).toBeLessThanOrEqual(mine.toMs);
        if (isRecorded && mine.what === "RECEIVED") expect(details).toEqual({ n: history.item });
      }
    }
    // Each engine is a different worker.
    const seen = [...workers.values()].map((set) => [...set]);
    expect(seen.every((set) => set.length === 1)).toBe(true);
    expect(new Set(seen.flat()).size).toBe(workers.size);
  });

  test("an item without records of its own appears with its key and content", async ({ rig }) => {
    const engine = await rig.start({ ledger: { keyFile: nameKey(rig) } });
    const pipeline = definePipeline({
      name: "silent",
      ledger: { item: true },
      maxRedrives: 0,
      key: (n: number) => `paper-${n}`,
      process: (n: number) => {
        if (n === 1) throw new PermanentError("never", { code: "BROKEN" });
      },
    });
    const handle = await engine.submit(pipeline, numbers(3));
    await handle.wait();
    const exported = await exportSigned(engine, handle.id);
    expect(isConclusive(await verify(exported, readPem(rig)))).toBe(true);
    const [, second] = await readItemHistories(
      () => [exported],
      ({ key }) => key !== null,
    );
    expect(second).toMatchObject({ key: "paper-1" });
    expect(tell(second!)).toEqual(["seen", "failed BROKEN"]);
    expect(second?.entries[0]?.content).toMatch(/^[0-9a-f]{64}$/);
  });

  test("a batch without a ledger of items is signed as well", async ({ rig }) => {
    const engine = await rig.start({ ledger: { keyFile: nameKey(rig) } });
    const pipeline = definePipeline({ name: "plain", process: () => undefined });
    const handle = await engine.submit(pipeline, numbers(3));
    await handle.wait();
    const exported = await exportSigned(engine, handle.id);
    expect(isConclusive(await verify(exported, readPem(rig)))).toBe(true);
    expect(statSync(nameKey(rig)).mode & 0o777).toBe(0o600);
  });

  test("acts on a batch after its end are signed too", async ({ rig }) => {
    const engine = await rig.start({ ledger: { keyFile: nameKey(rig) } });
    const handle = await engine.submit(definePapers([], "one"), numbers(10));
    await handle.wait();
    await exportSigned(engine, handle.id);
    await engine.operator.discard(handle.id, {}, { by: "ann", why: "known" });
    const exported = await exportSigned(engine, handle.id);
    expect(isConclusive(await verify(exported, readPem(rig)))).toBe(true);
    expect(exported.toString()).toContain('"by":"ann","items":1,"why":"known"');
  });

  test("a running batch is signed at intervals", async ({ rig }) => {
    const engine = await rig.start({ ledger: { keyFile: nameKey(rig), everyMs: 10 } });
    const opened = Promise.withResolvers<void>();
    const pipeline = definePipeline({ name: "slow", process: () => opened.promise });
    const handle = await engine.submit(pipeline, numbers(3));
    while ((await rig.store.readSignedHeads(handle.id)).length === 0) {
      await nextTurn();
    }
    const running = await verify(await exportWhole(engine, handle.id), readPem(rig));
    expect(running).toMatchObject({ kind: "intact", ended: null });
    opened.resolve();
    await handle.wait();
    const ended = await verify(await exportSigned(engine, handle.id), readPem(rig));
    expect(ended).toMatchObject({ kind: "intact", ended: "succeeded" });
    expect(isConclusive(ended)).toBe(true);
    expect((ended as { signedHeads: number }).signedHeads).toBeGreaterThan(1);
  });

  test("the old key introduces the new one", async ({ rig }) => {
    const engine = await rig.start({ ledger: { keyFile: nameKey(rig) } });
    const pipeline = definePipeline({ name: "plain", process: () => undefined });
    const first = await engine.submit(pipeline, numbers(3));
    await first.wait();
    await exportSigned(engine, first.id);
    const pem = readPem(rig);
    rotateKeyFile(nameKey(rig), new Date().toISOString(), { keepOld: false });
    const second = await engine.submit(pipeline, numbers(3));
    await second.wait();
    const exported = await exportSigned(engine, second.id);
    expect(readPem(rig)).not.toBe(pem);
    const verdict = await verify(exported, pem);
    expect(isConclusive(verdict)).toBe(true);
    expect(verdict).toMatchObject({ signers: [openKeyFile(nameKey(rig), "").key.id] });
  });

  test("signed heads are messages, and they reveal an older copy", async ({ rig }) => {
    const engine = await rig.start({ ledger: { keyFile: nameKey(rig) } });
    const anchors: string[] = [];
    engine.consume(HEADS, "anchors", ({ data }) => {
      anchors.push((data as { head: string }).head);
    });
    const handle = await engine.submit(definePapers([], "one"), numbers(10));
    await handle.wait();
    const older = await exportSigned(engine, handle.id);
    await engine.operator.discard(handle.id, {}, { by: "ann" });
    const newer = await exportSigned(engine, handle.id);
    expect(await engine.waitForSubscribers({ withinMs: WITHIN_MS })).toBe(true);
    expect(anchors.length).toBeGreaterThan(1);
    const pem = readPem(rig);
    expect(await verify(newer, pem, anchors)).toMatchObject({ kind: "intact" });
    expect(await verify(older, pem, anchors)).toMatchObject({
      kind: "broken",
      why: expect.stringMatching(/older than its anchor/) as string,
    });
  });

  test("details can be erased, and everything else can still be proved", async ({ rig }) => {
    const engine = await rig.start({ ledger: { keyFile: nameKey(rig) } });
    const handle = await engine.submit(definePapers([], "one"), numbers(10));
    await handle.wait();
    const keys = ["paper-1", "paper-2"];
    const act = { by: "ann", why: "asked for it" };
    expect(await engine.operator.eraseDetails(handle.id, { keys, ...act })).toBe(2);
    expect(await engine.operator.eraseDetails(handle.id, { keys, ...act })).toBe(0);
    const exported = await exportSigned(engine, handle.id);
    const verdict = await verify(exported, readPem(rig));
    expect(verdict).toMatchObject({ kind: "intact", details: { erased: 2 } });
    expect(isConclusive(verdict)).toBe(true);
    const text = exported.toString();
    expect(text).not.toContain('{"details":{"n":1},');
    expect(text).toContain('{"details":{"n":3},');
    expect(await rig.recordsOf(handle.id, "details.erased")).toEqual([{ records: 2, ...act }]);
    const why = "see https://ann:hunter2@portal.example/";
    await engine.operator.eraseDetails(handle.id, { keys: ["paper-4"], by: "ann", why });
    const [, last] = await rig.recordsOf(handle.id, "details.erased");
    expect(JSON.stringify(last)).not.toContain("hunter2");
  });

  test("two concurrent erasures: what both asked for is gone and counted once", async ({ rig }) => {
    const engine = await rig.start({ ledger: { keyFile: nameKey(rig) } });
    const handle = await engine.submit(definePapers([], "one"), numbers(10));
    await handle.wait();
    const erase = (by: string, ...items: number[]): Promise<number> =>
      engine.operator.eraseDetails(handle.id, { keys: items.map((n) => `paper-${n}`), by });
    const counts = await Promise.all([
      erase("ann", 0, 1, 2),
      erase("bob", 1, 2, 4),
      erase("cy", 6),
    ]);
    expect(counts.reduce((sum, count) => sum + count)).toBe(5);
    const exported = await exportSigned(engine, handle.id);
    const verdict = await verify(exported, readPem(rig));
    expect(verdict).toMatchObject({ kind: "intact", details: { erased: 5 } });
    const text = exported.toString();
    for (const n of numbers(10)) {
      expect(text.includes(`{"details":{"n":${n}},`)).toBe(![0, 1, 2, 4, 6].includes(n));
    }
    const told = await rig.recordsOf(handle.id, "details.erased");
    const records = told.map((data) => (data as { records: number }).records);
    expect(records.reduce((sum, count) => sum + count)).toBe(5);
  });

  test("a key that others may read is refused at the start", async ({ rig }) => {
    const keyFile = nameKey(rig);
    openKeyFile(keyFile, new Date().toISOString());
    chmodSync(keyFile, 0o644);
    await expect(rig.start({ ledger: { keyFile } })).rejects.toMatchObject({
      code: "LEDGER_KEY_FILE",
    });
  });

  test("a key that becomes unusable later stops no work, and everything is signed when it works again", async ({
    rig,
  }) => {
    const keyFile = nameKey(rig);
    const engine = await rig.start({ ledger: { keyFile, everyMs: 5 } });
    chmodSync(keyFile, 0o644);
    const opened = makeSignal();
    const pipeline = definePipeline({ name: "plain", process: () => opened.wait });
    const running = await engine.submit(pipeline, numbers(1), { lane: "one" });
    const isTold = (event: string): boolean =>
      rig.logs.some(
        (entry) => entry.event === event && entry.message.includes("other users can access"),
      );
    while (!isTold("signing.retry")) await nextTurn();
    opened.give();
    await running.wait();
    while (!isTold("delivery.handler_failed")) await nextTurn();
    expect(await rig.store.readSignedHeads(running.id)).toEqual([]);
    chmodSync(keyFile, 0o600);
    const verdict = await verify(await exportSigned(engine, running.id), readPem(rig));
    expect(isConclusive(verdict)).toBe(true);
  });
});
