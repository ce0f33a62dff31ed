/** Erased data leaves not only the tables, but also the file of a SQLite store and its log. */
import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { readChain } from "../support/ledger-reading.ts";
import { ME, type Rig, steps } from "./rig.ts";
import { makeRig, openRaw } from "./sqlite-rig.ts";

/**
 * The size of one record in characters: many on a page of the file, a few, or several pages each.
 */
const SIZES = [20, 300, 2_000, 9_000, 30_000];
const CHUNKS = 60;
const LATER = "kept-";

/** A person in each of two records of each chunk. Rows of other batches come in between. */
async function recordPeople(rig: Rig): Promise<string[]> {
  const settings = { ...steps({}), ledger: { item: true as const } };
  const ids = [await rig.running(Array(CHUNKS).fill(2), { settings })];
  ids.push(await rig.running(Array(CHUNKS).fill(2), { settings }));
  for (let nth = 0; nth < CHUNKS * ids.length; nth++) {
    const batch = ids[nth % ids.length]!;
    const lease = await rig.leaseOne({ batch });
    const rest = "x".repeat(SIZES[nth % SIZES.length]!);
    const details = `person-${nth}-${rest}\n${LATER}${nth}-${rest}\n`;
    const block = { number: 1, count: 2, root: "root", lines: "1\n2\n", details };
    await rig.report(lease, { succeeded: [0, 1], blocks: [block] });
  }
  return ids;
}

/** Removes the lines with this prefix. Returns the number of records. */
async function erase({ store }: Rig, id: string, word: string): Promise<number> {
  const links = await readChain(store, id);
  const kept = links.flatMap(({ seq, block }) => {
    const was = block?.details ?? null;
    if (was === null || !was.includes(word)) return [];
    const left = was.split(/(?<=\n)/).filter((line) => !line.startsWith(word));
    return { seq, was, details: left.length === 0 ? null : left.join(""), records: 1 };
  });
  return store.eraseDetails(id, kept, ME);
}

/** The numbers that follow a word, in the file or its log. */
function findIn(path: string, word: string): Set<string> {
  const files = [path, `${path}-wal`].filter((file) => existsSync(file));
  const text = files.map((file) => readFileSync(file, "latin1")).join("");
  return new Set(Array.from(text.matchAll(new RegExp(`${word}(\\d+)-`, "g")), ([, n]) => n!));
}

test("erased data is in neither the file nor its log, while the store is open", async () => {
  const rig = await makeRig();
  const ids = await recordPeople(rig);
  expect(findIn(rig.path, "person-").size).toBe(CHUNKS * 2);
  for (const id of ids) expect(await erase(rig, id, "person-")).toBe(CHUNKS);
  expect([...findIn(rig.path, "person-")]).toEqual([]);
  expect(findIn(rig.path, LATER).size).toBe(CHUNKS * 2);
  // The first erasing moved data within the file. The second must not leave any copy of it.
  for (const id of ids) expect(await erase(rig, id, LATER)).toBe(CHUNKS);
  expect([...findIn(rig.path, LATER)]).toEqual([]);
});

test("an open reader delays only the emptying of the log, at most until it ends", async () => {
  const rig = await makeRig({ busyMs: 0 });
  const [id = ""] = await recordPeople(rig);
  const reader = openRaw(rig.path);
  reader.exec("BEGIN; SELECT count(*) FROM batch");
  expect(await erase(rig, id, "person-")).toBe(CHUNKS);
  expect(findIn(rig.path, "person-").size).toBe(CHUNKS * 2);
  reader.close();
  await rig.store.close();
  expect(findIn(rig.path, "person-").size).toBe(CHUNKS);
});
