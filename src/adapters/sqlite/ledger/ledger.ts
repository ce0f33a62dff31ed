/** Links about items in the chains of batches, in SQL; written in the caller's transaction. */
import type { StatementSync } from "node:sqlite";
import {
  type ChangeCause,
  type ChunkPlace,
  describeChange,
  describeRedriven,
  type ItemsLink,
  LEDGER_PAGE_CHARS,
  type LedgerBlock,
} from "../../../core/ledger/item-ledger.ts";
import type { OutcomeMap } from "../../../core/items/outcome-map.ts";
import type { ChunkEffect, StoredChunk } from "../../../core/items/tracked-item.ts";
import type { LedgerLink } from "../../../ports/store/ledger-store.ts";
import { type LinkRow, measureRow, toLink } from "../../sql/ledger-rows.ts";
import type { Connection } from "../connection/connection.ts";
import type { RecordLog } from "./records.ts";

export class Ledger {
  readonly #records: RecordLog;
  readonly #findBlock: StatementSync;
  readonly #insert: StatementSync;
  readonly #select: StatementSync;

  constructor(connection: Connection, records: RecordLog) {
    this.#records = records;
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    this.#findBlock = prepare(
      `SELECT 1 FROM ledger_link INDEXED BY ledger_block
       WHERE batch = ? AND step = ? AND chunk = ? AND fence = ? AND block = ?`,
    );
    this.#insert = prepare(
      `INSERT INTO ledger_link (batch, seq, body, hash, step, chunk, fence, block, lines, details)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    // Retention removes the first link first: the rest is not a chain any more.
    const num = `(SELECT num FROM batch WHERE id = ? AND (pruned = 0
         OR EXISTS (SELECT 1 FROM record r WHERE r.batch = batch.num AND r.seq = 1)))`;
    this.#select = prepare(
      `SELECT seq, type, body, hash, NULL AS lines, NULL AS details FROM record
       WHERE batch = ${num} AND seq > ?
       UNION ALL SELECT seq, NULL, body, hash, lines, details FROM ledger_link
       WHERE batch = ${num} AND seq > ? ORDER BY seq LIMIT ?`,
    );
  }

  /** A block that already exists is not written again. */
  write(
    num: number,
    place: ChunkPlace,
    change: {
      readonly stored: StoredChunk;
      readonly effect: ChunkEffect;
      readonly cause: ChangeCause;
      readonly blocks?: readonly LedgerBlock[];
    },
  ): void {
    const { stored, effect, cause, blocks = [] } = change;
    const fresh = blocks.filter(({ number }) => !this.#isKnown(num, place, number));
    this.#append(num, place, describeChange(place, stored, effect, cause, fresh));
  }

  writeRedriven(
    num: number,
    place: ChunkPlace,
    before: OutcomeMap,
    after: OutcomeMap,
    drive: number,
  ): void {
    this.#append(num, place, [describeRedriven(place, before, after, drive)]);
  }

  #isKnown(num: number, { step, chunk, fence }: ChunkPlace, number: number): boolean {
    return this.#findBlock.get(num, step, chunk, fence, number) !== undefined;
  }

  #append(num: number, { step, chunk, fence }: ChunkPlace, links: readonly ItemsLink[]): void {
    const chained = this.#records.chain(
      num,
      links.map(({ record }) => record),
    );
    for (const [at, { seq, body, hash }] of chained.entries()) {
      const block = links[at]?.block ?? null;
      const kept = [block?.number ?? null, block?.lines ?? null, block?.details ?? null] as const;
      this.#insert.run(num, seq, body, hash, step, chunk, fence, ...kept);
    }
  }

  read(id: string, afterSeq: number, limit: number): LedgerLink[] {
    const links: LedgerLink[] = [];
    let chars = 0;
    for (const row of this.#select.iterate(id, afterSeq, id, afterSeq, limit)) {
      const link = row as unknown as LinkRow;
      chars += measureRow(link);
      if (links.length > 0 && chars > LEDGER_PAGE_CHARS) break;
      links.push(toLink(link));
    }
    return links;
  }
}
