/** Reads the rows of a batch's chain as values, for both SQL stores. */
import { ITEMS_RECORDED, type RecordType } from "../../core/batch/batch.ts";
import { measureLink } from "../../core/ledger/item-ledger.ts";
import type { LedgerLink } from "../../ports/store/ledger-store.ts";

/** A record, or a link about items between records. */
export interface LinkRow {
  readonly seq: number;
  /** NULL for a link about items. */
  readonly type: RecordType | null;
  readonly body: string;
  readonly hash: string;
  readonly lines: string | null;
  readonly details: string | null;
}

export function toLink({ seq, type, body, hash, lines, details }: LinkRow): LedgerLink {
  const block = lines === null ? null : { lines, details };
  return { seq, type: type ?? ITEMS_RECORDED, body, hash, block };
}

/** Its size within a page: records are small. */
export function measureRow(row: LinkRow): number {
  return row.type === null ? measureLink(row.body, toLink(row).block) : 0;
}
