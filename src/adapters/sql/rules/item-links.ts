/** Links about items in the chains of batches. */
import { type ChunkPlace, type ItemsLink, measureLink } from "../../../core/ledger/item-ledger.ts";
import type { Act } from "../dialect/act.ts";
import type { RecordLog } from "./records.ts";
import { statement } from "../dialect/statement.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";

/** A link, and the chunk that it is about. */
export interface LinkWrite {
  readonly place: ChunkPlace;
  readonly link: ItemsLink;
}

const INSERT = statement(
  `INSERT INTO ledger_link (batch, seq, body, hash, step, chunk, fence, block, lines, details
     /*postgres , size*/)
   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10 /*postgres , $11*/)`,
);

export function* appendLinks(
  tx: RuleTransaction,
  records: RecordLog,
  num: number,
  writes: readonly LinkWrite[],
): Act<void> {
  const chained = yield* records.chain(
    tx,
    num,
    writes.map(({ link }) => link.record),
  );
  for (const [at, { place, link }] of writes.entries()) {
    const { seq, body, hash } = chained[at] as (typeof chained)[number];
    const { block } = link;
    tx.send(
      INSERT,
      num,
      seq,
      body,
      hash,
      place.step,
      place.chunk,
      place.fence,
      block?.number ?? null,
      block?.lines ?? null,
      block?.details ?? null,
      measureLink(body, block),
    );
  }
}
