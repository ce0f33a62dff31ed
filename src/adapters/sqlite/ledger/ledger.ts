/** Links about items in the chains of batches, in SQL; written in the caller's transaction. */
import type { StatementSync } from "node:sqlite";
import {
  type ChangeCause,
  type ChunkPlace,
  describeChange,
  type LedgerBlock,
} from "../../../core/ledger/item-ledger.ts";
import type { ChunkEffect, StoredChunk } from "../../../core/items/tracked-item.ts";
import { runNow } from "../../sql/dialect/act.ts";
import { appendLinks } from "../../sql/rules/item-links.ts";
import type { RecordLog } from "../../sql/rules/records.ts";
import type { Connection } from "../connection/connection.ts";

export class Ledger {
  readonly #connection: Connection;
  readonly #records: RecordLog;
  readonly #findBlock: StatementSync;

  constructor(connection: Connection, records: RecordLog) {
    this.#connection = connection;
    this.#records = records;
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    this.#findBlock = prepare(
      `SELECT 1 FROM ledger_link INDEXED BY ledger_block
       WHERE batch = ? AND step = ? AND chunk = ? AND fence = ? AND block = ?`,
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
    const links = describeChange(place, stored, effect, cause, fresh);
    const writes = links.map((link) => ({ place, link }));
    runNow(appendLinks(this.#connection.transaction.rules, this.#records, num, writes));
  }

  #isKnown(num: number, { step, chunk, fence }: ChunkPlace, number: number): boolean {
    return this.#findBlock.get(num, step, chunk, fence, number) !== undefined;
  }
}
