/** The chain of a batch, its signed heads, the keys that signed them, and erasing, in SQL. */
import {
  type Act as OperatorAct,
  describeAct,
  ITEMS_RECORDED,
  type RecordType,
} from "../../../core/batch/batch.ts";
import { LEDGER_PAGE_CHARS, measureLink } from "../../../core/ledger/item-ledger.ts";
import {
  describeSignedHead,
  SIGNED_HEADS_TOPIC,
} from "../../../core/ledger/signed-head-message.ts";
import type {
  KeptDetails,
  LedgerLink,
  StoredKey,
  StoredSignedHead,
} from "../../../ports/store/ledger-store.ts";
import { type Act, answered, together } from "../dialect/act.ts";
import { statement } from "../dialect/statement.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";
import type { BatchRow } from "../rows.ts";
import { addMessages, hasGroups } from "../topics/topics.ts";
import type { RecordLog } from "./records.ts";

const OF_BATCH = `SELECT size, body, signature, tree FROM ledger_head
  WHERE batch = (SELECT num FROM batch WHERE id = $1) ORDER BY size`;
const SELECT_LAST = statement(`${OF_BATCH} DESC LIMIT 1`);
const SELECT_HEADS = statement(OF_BATCH);
const FIND_SIZE = statement(
  "SELECT coalesce(max(size), 0) AS size FROM ledger_head WHERE batch = $1",
);
const INSERT_HEAD = statement(
  "INSERT INTO ledger_head (batch, size, body, signature, tree) VALUES ($1, $2, $3, $4, $5)",
);
const SELECT_KEYS = statement("SELECT id, body, signature FROM ledger_key ORDER BY place");
const INSERT_KEY = statement(
  "INSERT INTO ledger_key (id, body, signature) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING",
);
const FIND_LINK = statement(
  "SELECT body, lines, details FROM ledger_link WHERE batch = $1 AND seq = $2",
);
const UPDATE_DETAILS = statement(
  `UPDATE ledger_link SET details = $1/*postgres , size = $2*/ WHERE batch = $3 AND seq = $4`,
);
// Retention removes the first link first: the rest is not a chain any more.
const LINKS = `batch = (SELECT num FROM batch WHERE id = $1 AND (pruned = 0
    OR EXISTS (SELECT 1 FROM record r WHERE r.batch = batch.num AND r.seq = 1)))
  AND seq > $2`;
// A server does not send links beyond the size of a page.
const SELECT_LINKS = statement(
  `/*sqlite SELECT seq, type, body, hash, NULL AS lines, NULL AS details FROM record WHERE ${LINKS}
     UNION ALL SELECT seq, NULL, body, hash, lines, details FROM ledger_link WHERE ${LINKS}
     ORDER BY seq LIMIT $3*/
   /*postgres SELECT seq, type, body, hash, lines, details FROM (
     SELECT l.*, sum(size) OVER (ORDER BY seq) AS total, row_number() OVER (ORDER BY seq) AS nth
     FROM (
       (SELECT seq, type, body, hash, NULL::text AS lines, NULL::text AS details, 0 AS size
        FROM record WHERE ${LINKS} ORDER BY seq LIMIT $3)
       UNION ALL
       (SELECT seq, NULL, body, hash, lines, details, size FROM ledger_link WHERE ${LINKS}
        ORDER BY seq LIMIT $3)
     ) AS l) AS p
   WHERE (nth = 1 OR total <= ${LEDGER_PAGE_CHARS}) AND nth <= $3 ORDER BY seq*/`,
);

/** A record, or a link about items between records. */
interface LinkRow {
  readonly seq: number;
  /** NULL for a link about items. */
  readonly type: RecordType | null;
  readonly body: string;
  readonly hash: string;
  readonly lines: string | null;
  readonly details: string | null;
}

export class Evidence {
  readonly #records: RecordLog;

  constructor(records: RecordLog) {
    this.#records = records;
  }

  *readLedger(tx: RuleTransaction, id: string, afterSeq: number, limit: number): Act<LedgerLink[]> {
    const size = { sizeMax: LEDGER_PAGE_CHARS, measure: measureRow };
    return (yield* tx.page<LinkRow>(SELECT_LINKS, [id, afterSeq, limit], size)).map(toLink);
  }

  *findSignedHead(tx: RuleTransaction, id: string): Act<StoredSignedHead | null> {
    return (yield* tx.get<StoredSignedHead>(SELECT_LAST, id)) ?? null;
  }

  readSignedHeads(tx: RuleTransaction, id: string): Act<StoredSignedHead[]> {
    return tx.all(SELECT_HEADS, id);
  }

  /** False when the batch has another head by now. */
  *addSignedHead(
    tx: RuleTransaction,
    { num, id }: BatchRow,
    signedHead: StoredSignedHead,
    afterSize: number,
  ): Act<boolean> {
    const [last, isHeard] = yield* together(
      tx.get<{ readonly size: number }>(FIND_SIZE, num),
      hasGroups(tx, SIGNED_HEADS_TOPIC),
    );
    if ((last?.size ?? 0) !== afterSize) return false;
    const { size, body, signature, tree } = signedHead;
    tx.send(INSERT_HEAD, num, size, body, signature, tree);
    if (isHeard) addMessages(tx, [describeSignedHead(id, signedHead)]);
    tx.notify();
    return true;
  }

  readKeys(tx: RuleTransaction): Act<StoredKey[]> {
    return tx.all(SELECT_KEYS);
  }

  addKey(tx: RuleTransaction, { id, body, signature }: StoredKey): Act<void> {
    tx.send(INSERT_KEY, id, body, signature);
    return answered(undefined);
  }

  /** Returns how many records were erased. */
  *erase(
    tx: RuleTransaction,
    { num }: BatchRow,
    kept: readonly KeptDetails[],
    act: OperatorAct,
  ): Act<number> {
    let records = 0;
    for (const one of kept) records += yield* putDetails(tx, num, one);
    if (records === 0) return 0;
    const data = { records, ...describeAct(act) };
    yield* this.#records.record(tx, num, { type: "details.erased", data });
    return records;
  }
}

function* putDetails(
  tx: RuleTransaction,
  num: number,
  { seq, was, details, records }: KeptDetails,
): Act<number> {
  type Row = { readonly body: string; readonly lines: string; readonly details: string | null };
  const link = yield* tx.get<Row>(FIND_LINK, num, seq);
  if (link?.details !== was) return 0;
  const size = measureLink(link.body, { lines: link.lines, details });
  tx.send(UPDATE_DETAILS, details, size, num, seq);
  return records;
}

function toLink({ seq, type, body, hash, lines, details }: LinkRow): LedgerLink {
  const block = lines === null ? null : { lines, details };
  return { seq, type: type ?? ITEMS_RECORDED, body, hash, block };
}

/** Its size within a page: records are small. */
function measureRow(row: LinkRow): number {
  return row.type === null ? measureLink(row.body, toLink(row).block) : 0;
}
