import { expect, test } from "vitest";
import type { Store } from "../../ports/store/store.ts";
import { exportLedger } from "./ledger-export.ts";

const RECORDS = 5;

const store = {
  readSignedHeads: async () => [],
  readKeys: async () => [],
  readLedger: async (_batch: string, after: number) =>
    Array.from({ length: RECORDS }, (_, n) => ({
      seq: n + 1,
      body: `{"seq":${n + 1}}`,
      block: null,
    })).slice(after),
} as unknown as Store;

async function countRecords(upTo: number | null): Promise<number> {
  const pieces: Uint8Array[] = [];
  for await (const piece of exportLedger(store, "b-1", upTo)) pieces.push(piece);
  const text = Buffer.concat(pieces).toString();
  const records = text.split("\n").filter((line) => line.startsWith('{"seq":')).length;
  expect(text.endsWith(`{"end":{"items":0,"records":${records}}}\n`)).toBe(true);
  return records;
}

test("an export ends where it is signed; later records come with the next export", async () => {
  expect(await countRecords(3)).toBe(3);
  expect(await countRecords(RECORDS)).toBe(RECORDS);
  expect(await countRecords(null)).toBe(RECORDS);
});

test("an export contains a key that is introduced while it is written", async () => {
  const keys: { id: string; body: string; signature: string }[] = [];
  const signing = {
    ...store,
    readSignedHeads: async () => {
      keys.push({ id: "ab", body: "statement", signature: "00" });
      return [{ size: 5, body: "body", signature: "00", tree: "" }];
    },
    readKeys: async () => [...keys],
  } as unknown as Store;
  const pieces: Uint8Array[] = [];
  for await (const piece of exportLedger(signing, "b-1")) pieces.push(piece);
  const text = Buffer.concat(pieces).toString();
  expect(text).toContain('{"head":"body"');
  expect(text).toContain('{"key":"statement"');
});
