/**
 * The rows of a query, page by page after the last key. Unlike OFFSET it reads each row once at any
 * depth, and rows that are added or removed meanwhile shift nothing. It is a stream: the engine
 * freezes it into manifests.
 *
 * A keyset silently loses rows when its key is not unique, and loops for ever when the query does
 * not use the key. Both show in the keys, so each is compared with the one before.
 */
import { SluiceError } from "../../core/base/errors.ts";
import { checkFunction, checkOptionNames, checkSize } from "../files/option-checks.ts";
import { callUser, checkPage } from "./user-source.ts";

export type KeysetKey = string | number | bigint;

export interface KeysetOptions<Row, Key extends KeysetKey> {
  /** At most `limit` rows after a key, in the key's order; null for the first ones. */
  readonly page: (afterKey: Key | null, limit: number) => Promise<readonly Row[]> | readonly Row[];
  /** The column that the query sorts by; unique, and never null. */
  readonly key: (row: Row) => Key;
  /** Rows per request; default 1,000. */
  readonly pageSize?: number;
}

const KIND = "keyset";
const PAGE_SIZE = 1_000;

/**
 * The rows of a query by keyset, with any database client.
 *
 * ```ts
 * const source = keyset({
 *   page: async (after: number | null, limit) => {
 *     const sql = "SELECT id, email FROM contacts WHERE id > $1 ORDER BY id LIMIT $2";
 *     return (await pool.query(sql, [after ?? 0, limit])).rows;
 *   },
 *   key: (row) => row.id,
 * });
 * ```
 */
export function keyset<Row, Key extends KeysetKey>(
  options: KeysetOptions<Row, Key>,
): AsyncIterable<Row> {
  checkOptionNames(KIND, options, ["page", "key", "pageSize"]);
  checkFunction(KIND, "page", options.page);
  checkFunction(KIND, "key", options.key);
  const pageSize = checkSize(KIND, "pageSize", options.pageSize, PAGE_SIZE);
  return { [Symbol.asyncIterator]: () => readRows(options, pageSize) };
}

async function* readRows<Row, Key extends KeysetKey>(
  options: KeysetOptions<Row, Key>,
  pageSize: number,
): AsyncGenerator<Row> {
  const keys = new KeyOrder<Key>();
  for (;;) {
    const after = keys.last;
    const call = `keyset: page(${spell(after)}, ${pageSize})`;
    const rows = await callUser(call, () => options.page(after, pageSize));
    checkPage(call, rows);
    if (rows.length === 0) return;
    // The whole page first: a row that is yielded has a key that continues from the one before.
    for (const row of rows) keys.advance(options.key(row), call);
    yield* rows;
  }
}

/** Checks that keys advance: no key twice in a row, and numbers in one direction. */
class KeyOrder<Key extends KeysetKey> {
  last: Key | null = null;
  /**
   * 1 rising, -1 falling, 0 unknown. The order of text is not checked: it depends on the collation.
   */
  #direction = 0;

  advance(key: Key, call: string): void {
    const last = this.last;
    if (!isKey(key)) {
      throw new SluiceError(
        "SOURCE_BAD_PAGE",
        `${call} returned a row with the key ${String(key)}`,
        {
          hint: "The key must be a number or text in every row. Use a NOT NULL column.",
        },
      );
    }
    this.last = key;
    if (last === null) return;
    if (key === last) {
      throw new SluiceError(
        "SOURCE_BAD_PAGE",
        `${call} returned the key ${spell(key)} again, right after itself`,
        {
          hint: "The query must ask for rows strictly after the key (WHERE key > $1), and the key must be unique: add the primary key to it if it is not.",
        },
      );
    }
    if (typeof key === "string" || typeof last === "string") return;
    const direction = key > last ? 1 : -1;
    if (this.#direction === -direction) {
      throw new SluiceError(
        "SOURCE_BAD_PAGE",
        `${call} returned the key ${spell(key)} after ${spell(last)}, against the order so far`,
        { hint: "The query must sort by the key (ORDER BY key) and ask only for rows after it." },
      );
    }
    this.#direction = direction;
  }
}

function isKey(key: unknown): key is KeysetKey {
  if (typeof key === "number") return !Number.isNaN(key);
  return typeof key === "string" || typeof key === "bigint";
}

function spell(key: KeysetKey | null): string {
  return typeof key === "string" ? JSON.stringify(key) : String(key);
}
