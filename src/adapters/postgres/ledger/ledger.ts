/**
 * Links about items in the chains of batches, in SQL; written in the caller's transaction, under
 * the lock of the batch. Without a ledger of items it sends nothing; with one, its queries share
 * the round trip of the chunks.
 */
import { runAct } from "../../sql/dialect/act.ts";
import {
  type ChangeCause,
  type ChunkPlace,
  describeChange,
  type ItemsLink,
  type LedgerBlock,
} from "../../../core/ledger/item-ledger.ts";
import type { ChunkEffect, StoredChunk } from "../../../core/items/tracked-item.ts";
import type { Report } from "../../../ports/store/worker-store.ts";
import { appendLinks, type LinkWrite } from "../../sql/rules/item-links.ts";
import type { RecordLog } from "../../sql/rules/records.ts";
import type { BatchRow } from "../../sql/rows.ts";
import { statement } from "../connection/statement.ts";
import type { Transaction } from "../connection/transaction.ts";

const SELECT_KNOWN = statement(
  `SELECT n.report, n.block
   FROM unnest($1::int[], $2::text[], $3::int[], $4::int[], $5::bigint[], $6::int[])
     AS n(report, id, step, chunk, fence, block) JOIN batch b ON b.id = n.id
   CROSS JOIN LATERAL (SELECT 1 FROM ledger_link o WHERE o.batch = b.num AND o.step = n.step
     AND o.chunk = n.chunk AND o.fence = n.fence AND o.block = n.block OFFSET 0) AS l
   WHERE b.id = ANY($2::text[])`,
);
const SELECT_HEADS = statement(
  "SELECT num, id, record_seq, record_hash FROM batch WHERE id = ANY($1::text[])",
);

/** Which blocks of which reports are already stored: `report/number`. */
export type KnownBlocks = ReadonlySet<string>;

const NOTHING_KNOWN: KnownBlocks = new Set();

export class Ledger {
  readonly #records: RecordLog;

  constructor(records: RecordLog) {
    this.#records = records;
  }

  /** Reads what is needed to write links for these reports, after the locks of their batches. */
  async look(tx: Transaction, reports: readonly Report[]): Promise<KnownBlocks> {
    const kept = reports.filter(({ ledger }) => ledger !== undefined);
    if (kept.length === 0) return NOTHING_KNOWN;
    const heads = readHeads(tx, [...new Set(kept.map(({ batch }) => batch))]);
    const sent = reports.flatMap((report, nth) =>
      (report.ledger?.blocks ?? []).map(({ number }) => ({ ...report, nth, number })),
    );
    if (sent.length === 0) {
      await heads;
      return NOTHING_KNOWN;
    }
    const known = tx.all<{ readonly report: number; readonly block: number }>(
      SELECT_KNOWN,
      sent.map(({ nth }) => nth),
      sent.map(({ batch }) => batch),
      sent.map(({ step }) => step),
      sent.map(({ chunk }) => chunk),
      sent.map(({ fence }) => fence),
      sent.map(({ number }) => number),
    );
    await heads;
    return new Set((await known).map(({ report, block }) => `${report}/${block}`));
  }

  /** Collects the links of one commit, to be written before the records of endings. */
  begin(): LedgerWrites {
    return new LedgerWrites(this.#records);
  }
}

export class LedgerWrites {
  readonly #records: RecordLog;
  /** By the number of the batch. */
  readonly #links = new Map<number, LinkWrite[]>();

  constructor(records: RecordLog) {
    this.#records = records;
  }

  /** `blocks`: those that are not stored yet. */
  note(
    num: number,
    place: ChunkPlace,
    change: {
      readonly stored: StoredChunk;
      readonly effect: ChunkEffect;
      readonly cause: ChangeCause;
      readonly blocks?: readonly LedgerBlock[];
    },
  ): void {
    const { stored, effect, cause, blocks } = change;
    this.add(num, place, describeChange(place, stored, effect, cause, blocks));
  }

  add(num: number, place: ChunkPlace, links: readonly ItemsLink[]): void {
    const ofBatch = this.#links.get(num) ?? [];
    this.#links.set(num, ofBatch);
    for (const link of links) ofBatch.push({ place, link });
  }

  async send(tx: Transaction): Promise<void> {
    for (const [num, writes] of this.#links) {
      await runAct(appendLinks(tx.rules, this.#records, num, writes));
    }
  }
}

/** Reads the heads of batches that the transaction has locked, in one query. */
async function readHeads(tx: Transaction, ids: readonly string[]): Promise<void> {
  type Row = Pick<BatchRow, "num" | "id" | "record_seq" | "record_hash">;
  const { heads } = tx.rules;
  const rows = await tx.all<Row>(SELECT_HEADS, ids);
  for (const { num, id, record_seq: seq, record_hash: hash } of rows) {
    if (heads?.has(num) !== true) heads?.set(num, { id, seq, hash });
  }
}
