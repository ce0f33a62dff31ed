/**
 * Follows the chains of a store's records. A record that was read and checked is not read again.
 */
import assert from "node:assert/strict";
import { hash } from "node:crypto";
import type { Store } from "../../src/ports/store/store.ts";
import type { Batch } from "./oracle-batch.ts";

type Records = Batch["records"];

interface Link {
  readonly records: Records;
  position: number;
  hash: string;
}

export class ChainReader {
  readonly #links = new Map<string, Link>();

  /** The records of a batch without their links. */
  async read(store: Store, id: string): Promise<Records> {
    const name = `${store.name}/${id}`;
    const link = this.#links.get(name) ?? { records: [], position: 0, hash: "0".repeat(64) };
    this.#links.set(name, link);
    for (const record of await store.readRecords(id, link.position, 1_000)) {
      const body = JSON.parse(record.body) as Records[number];
      const { type, at, data } = body;
      const seq = link.records.length + 1;
      const expected = { v: 1, seq, prev: link.hash, batch: id, type, at, data };
      assert.equal(record.hash, hash("sha256", record.body), `${id}: a record matches its hash`);
      assert.deepEqual(body, expected, `${id}: the chain holds`);
      assert(record.position > link.position, `${id}: positions rise`);
      assert.deepEqual([record.seq, record.type, record.batch], [seq, type, id]);
      link.position = record.position;
      link.hash = record.hash;
      link.records.push({ type, at, data: hush(data) });
    }
    return [...link.records];
  }
}

/** The messages of convictions and exceeded budgets come from core. */
const HUSHED = ["POISON", "FAILURE_BUDGET"];

/** A copy without messages, because their wording is not promised. */
export function hush<T>(value: T): T {
  if (Array.isArray(value)) return value.map(hush) as T;
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return value;
  const entries: [string, unknown][] = Object.entries(value);
  const hushed = entries.map(([name, one]): [string, unknown] => [name, hush(one)]);
  const copy = Object.fromEntries(hushed) as T & { code?: string; message?: string };
  if (HUSHED.includes(copy.code ?? "")) copy.message = "";
  return copy;
}
