/** A copy of a SQLite file on a server answers every query alike and continues alike. */
import { readFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { describeHost } from "../../src/adapters/sql/host.ts";
import type { RetentionAges } from "../../src/core/batch/retention.ts";
import { openDump } from "../../src/adapters/sqlite/dump.ts";
import { copyStore } from "../../src/stores/copy-store.ts";
import { SeededRandom } from "../../src/testing/world/seeded-random.ts";
import {
  describeDifference,
  findFirstDifference,
  readCanonicalState,
} from "../support/canonical-state.ts";
import { findBrokenLeases } from "../support/lease-rows.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { makePlace, openAt } from "./postgres-rig.ts";
import { allOf, ME, Rig, steps } from "./rig.ts";
import { makeRig } from "./sqlite-rig.ts";

const HOOK = "hook";
const EVERYTHING = { readers: [HOOK] };
const FIVE_A_SECOND = { kind: "rate", perSecond: 5, burst: 10 } as const;

/** A batch with a ledger of its items. One link has a block, and two keys have signed the chain. */
async function keepLedger(rig: Rig): Promise<void> {
  const id = await rig.running([2], { settings: { ...steps({}), ledger: { item: true } } });
  const lines = '{"key":"nul \\u0000 and \uE000 😀"}\n';
  const block = { number: 1, count: 1, root: "root", lines, details: '{"i":0}\n' };
  const lease = await rig.leaseOne({ batch: id });
  await rig.report(lease, { failed: [0], blocks: [block], intent: "keep" });
  await rig.report(lease, { succeeded: [1], upon: new Uint8Array([3]) });
  const { store } = rig;
  // The order differs from the order of their names.
  for (const key of ["zz", "aa"])
    await store.addKey({ id: key, body: `{"${key}":1}`, signature: key });
  const point = { body: '{"size":3}', signature: "nul \0 and \uE000 😀", tree: "00ff" };
  expect(await store.addSignedHead(id, { ...point, size: 3 }, 0)).toBe(true);
  expect(await store.addSignedHead(id, { ...point, size: 5 }, 3)).toBe(true);
}

/** One of everything that a file can hold. */
async function fill(rig: Rig): Promise<void> {
  const { store, clock } = rig;
  await store.startReader(HOOK, "beginning");
  const mixed = await rig.running([4, 2], {
    key: "a\0key",
    settings: steps({ errorsTopic: "oops" }),
  });
  const [first, second] = await rig.lease({ batch: mixed, chunksMax: 2 });
  if (first === undefined || second === undefined) throw new Error("there are two chunks");
  const results = { 0: '{"text":"nul \\u0000 and 😀"}' };
  await rig.report(first, { succeeded: [0, 1], failed: [2, 3], results, emits: { 1: ["mail"] } });
  await store.claimContents(second, [{ index: 0, content: "scope/id/hash" }]);
  await rig.report(second, { succeeded: [0, 1], contents: { 0: "scope/id/hash" } });
  await rig.edit(mixed, 2, '{"better":true}');
  await rig.discard(mixed, { items: [3] });
  await store.keepUndelivered({
    reader: HOOK,
    position: 1,
    event: `${mixed}/1`,
    batch: mixed,
    type: "batch.submitted",
    attempts: 3,
    code: "NO",
    message: "it said no",
  });
  const busy = await rig.running([2, 2, 2], { settings: steps({ maxRedrives: 2 }) });
  const [waits] = await rig.lease({ batch: busy });
  if (waits === undefined) throw new Error("there are three chunks");
  await rig.report(waits, { succeeded: [0], retryInMs: { 1: 9_000 }, checkpoints: { 1: "half" } });
  await keepLedger(rig);
  const one = await rig.slicing({ lane: "shared", open: true });
  await rig.submit({ lane: "shared" });
  await rig.pause("batch", one);
  await store.setLanePolicy("shared", "park");
  await store.setLimit({ kind: "cap", scope: "lane", name: "shared", value: 3 }, ME);
  await store.draw([{ bucket: "rate/x", key: "k", spec: FIVE_A_SECOND, cost: 1, count: 9 }], 0);
  await store.closeBucket({ bucket: "rate/x", key: "closed" }, 60_000);
  clock.advance(1_000);
}

test("a copy returns the same data as its original and continues where the original stopped", async () => {
  const rig = await makeRig();
  await fill(rig);
  const before = await readCanonicalState(rig.store, EVERYTHING);
  await rig.store.close();
  const place = await makePlace();
  const options = { clock: rig.clock, random: new SeededRandom() };
  const rows = await copyStore(`sqlite:${rig.path}`, place.address, options);
  expect(rows.get("batch")).toBe(5);
  expect(rows.get("ledger_link")).toBe(2);
  expect(rows.get("ledger_head")).toBe(2);
  expect(rows.get("ledger_key")).toBe(2);
  expect(rows.get("message")).toBe(3);

  // Monotonic times of the file become times of the server.
  const time = { wallMs: () => rig.clock.wallMs(), monotonicMs: () => rig.clock.wallMs() };
  const copy = await openAt(place.address, rig.clock, { time });
  try {
    const difference = findFirstDifference(before, await readCanonicalState(copy, EVERYTHING));
    const told = difference && describeDifference(difference, ["the file", "its copy"]);
    expect(told).toBeNull();

    const worker = await copy.registerWorker({ name: "newcomer" });
    const after = new Rig(copy, rig.clock, worker);
    await copy.addKey({ id: "mm", body: "{}", signature: "" });
    expect((await copy.readKeys()).map(({ id }) => id)).toEqual(["zz", "aa", "mm"]);
    const fresh = await after.submit();
    expect(fresh.id).not.toBe("");
    rig.clock.advance(9_000);
    const leased = await after.lease({ chunksMax: 100 });
    expect(leased.map(({ batch, chunk }) => `${batch}/${chunk}`)).toContain("batch-2/0");
    for (const lease of leased)
      expect(await after.report(lease, { succeeded: allOf(lease) })).toBe("settled");
    const records = await copy.readRecords(null, 0, 1_000);
    const positions = records.map(({ position }) => position);
    expect(positions).toEqual([...new Set(positions)].toSorted((a, b) => a - b));
  } finally {
    await copy.close();
  }
});

test("large rows are copied a few at a time, and a row of any size alone", async () => {
  const rig = await makeRig();
  const settings = { ...steps({}), ledger: { item: true as const } };
  const id = await rig.running(Array(9).fill(1), { settings });
  const sizes = [9_000_000, 10, 10, 1_500_000, 1_500_000, 1_500_000, 1_500_000, 10, 9_000_000];
  for (const size of sizes) {
    const block = { number: 1, count: 1, root: "root", lines: "1\n", details: "x".repeat(size) };
    await rig.report(await rig.leaseOne({ batch: id }), { succeeded: [0], blocks: [block] });
  }
  await rig.store.close();
  const dump = openDump(rig.path, rig.clock);
  const pages = [...(dump.tables.find(({ name }) => name === "ledger_link")?.readPages() ?? [])];
  dump.close();
  const detailsOf = ({ details }: Record<string, unknown>): number => (details as string).length;
  expect(pages.flatMap((page) => page.map(detailsOf))).toEqual(sizes);
  expect(pages.map(({ length }) => length)).toEqual([1, 4, 3, 1]);
  const place = await makePlace();
  const options = { clock: rig.clock, random: new SeededRandom() };
  const rows = await copyStore(rig.path, place.address, options);
  expect(rows.get("ledger_link")).toBe(sizes.length);
});

test("a copied batch keeps its own retention ages and the record of what was pruned", async () => {
  const rig = await makeRig();
  const end = async (retention: RetentionAges): Promise<string> => {
    const id = await rig.running([1], { settings: { ...steps({}), retention } });
    await rig.settle(await rig.leaseOne({ batch: id }));
    return id;
  };
  const ids = [
    await end({}),
    await end({ keepMs: 0 }),
    await end({ keepMs: 2_000 }),
    await end({ keepEvidenceMs: 2_000 }),
    await end({ keepEvidenceMs: 0 }),
  ];
  const policy = { scratchAgeMs: 3_000, evidenceAgeMs: 5_000, dryRun: false };
  rig.clock.advance(1_000);
  expect(await rig.store.prune(policy)).toMatchObject({ scratched: 1, removed: 0 });
  await rig.store.close();
  const place = await makePlace();
  const options = { clock: rig.clock, random: new SeededRandom() };
  await copyStore(`sqlite:${rig.path}`, place.address, options);
  const time = { wallMs: () => rig.clock.wallMs(), monotonicMs: () => rig.clock.wallMs() };
  const copy = await openAt(place.address, rig.clock, { time });
  try {
    rig.clock.advance(1_500);
    expect(await copy.prune(policy)).toMatchObject({ scratched: 1, removed: 1 });
    const left = await Promise.all(ids.map(async (id) => (await copy.getBatch(id))?.pruned));
    expect(left).toEqual([false, true, true, undefined, false]);
    rig.clock.advance(10 ** 6);
    expect(await copy.prune(policy)).toMatchObject({ scratched: 1, removed: 3 });
    expect(await copy.getBatch(ids.at(-1) ?? "")).toMatchObject({ pruned: true });
  } finally {
    await copy.close();
  }
});

test("a copy runs chunks guarded that were leased in the original file", async () => {
  const rig = await makeRig();
  const id = await rig.running([2, 2, 2, 2, 2]);
  const [settled, waits, flushed] = await rig.lease({ chunksMax: 4 });
  await rig.settle(settled!);
  await rig.report(waits!, { retryInMs: { 0: 500, 1: 500 } });
  await rig.report(flushed!, { succeeded: [0], intent: "keep" });
  await rig.store.close();
  const place = await makePlace();
  const options = { clock: rig.clock, random: new SeededRandom() };
  await copyStore(`sqlite:${rig.path}`, place.address, options);
  expect(await findBrokenLeases(place.server, place.schema)).toEqual([]);
  const time = { wallMs: () => rig.clock.wallMs(), monotonicMs: () => rig.clock.wallMs() };
  const copy = await openAt(place.address, rig.clock, { time });
  try {
    const after = new Rig(copy, rig.clock, await copy.registerWorker({ name: "newcomer" }));
    expect(await after.sweep()).toMatchObject({ lostLeases: 2 });
    rig.clock.advance(500);
    const leased = await after.lease({ batch: id, chunksMax: 9 });
    const seen = leased.map(({ chunk, guarded }) => `${chunk} ${guarded ? "guarded" : "plain"}`);
    expect(seen.toSorted()).toEqual(["1 plain", "2 guarded", "3 guarded", "4 plain"]);
    for (const lease of leased) expect(await after.settle(lease)).toBe("settled");
    expect(await after.state(id)).toBe("succeeded");
  } finally {
    await copy.close();
  }
  expect(await findBrokenLeases(place.server, place.schema)).toEqual([]);
});

test("a copy into a store with batches is refused, and so is a copy to a file", async () => {
  const rig = await makeRig();
  await rig.running([1]);
  await rig.store.close();
  const place = await makePlace();
  const options = { clock: new ManualClock(), random: new SeededRandom() };
  await copyStore(rig.path, place.address, options);
  await expect(copyStore(rig.path, place.address, options)).rejects.toMatchObject({
    code: "STORE_NOT_EMPTY",
  });
  await expect(copyStore(rig.path, "other.db", options)).rejects.toMatchObject({
    code: "STORE_UNSUPPORTED",
    kind: "copy",
  });
});

test("a file that is open in a living process is not copied", async () => {
  const rig = await makeRig();
  const [boot, namespace] = describeHost().process.split("/");
  const stat = readFileSync(`/proc/${process.ppid}/stat`, "utf8");
  const ticks = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19];
  const raw = new DatabaseSync(rig.path);
  raw.prepare("UPDATE worker SET process = ?").run(`${boot}/${namespace}/${process.ppid}/${ticks}`);
  raw.close();
  await rig.store.close();
  const options = { clock: new ManualClock(), random: new SeededRandom() };
  const { address } = await makePlace();
  await expect(copyStore(rig.path, address, options)).rejects.toMatchObject({
    code: "STORE_IN_USE",
  });
});
