/** Signed heads of chains, the keys that signed them, and erasing, in SQL. */
import { runAct } from "../../sql/dialect/act.ts";
import { type Act, describeAct } from "../../../core/batch/batch.ts";
import {
  SIGNED_HEADS_TOPIC,
  describeSignedHead,
} from "../../../core/ledger/signed-head-message.ts";
import { measureLink } from "../../../core/ledger/item-ledger.ts";
import type {
  KeptDetails,
  LedgerStore,
  StoredSignedHead,
  StoredKey,
} from "../../../ports/store/ledger-store.ts";
import type { BatchRow } from "../../sql/rows.ts";
import type { Connection } from "../connection/connection.ts";
import type { Ledger } from "./ledger.ts";
import type { RecordLog } from "../../sql/rules/records.ts";
import { statement } from "../connection/statement.ts";
import type { Topics } from "../topics/topics.ts";
import type { Transaction } from "../connection/transaction.ts";

const OF_BATCH = `SELECT size, body, signature, tree FROM ledger_head
   WHERE batch = (SELECT num FROM batch WHERE id = $1) ORDER BY size`;
const SELECT_LAST = statement(`${OF_BATCH} DESC LIMIT 1`);
const SELECT_HEADS = statement(OF_BATCH);
const SELECT_SIZE = statement(
  "SELECT coalesce(max(size), 0) AS size FROM ledger_head WHERE batch = $1",
);
const INSERT_HEAD = statement(
  `INSERT INTO ledger_head (batch, size, body, signature, tree) VALUES ($1, $2, $3, $4, $5)`,
);
const SELECT_KEYS = statement("SELECT id, body, signature FROM ledger_key ORDER BY place");
const INSERT_KEY = statement(
  `INSERT INTO ledger_key (id, body, signature) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING`,
);
const SELECT_LINK = statement(
  "SELECT body, lines, details FROM ledger_link WHERE batch = $1 AND seq = $2",
);
const UPDATE_DETAILS = statement(
  "UPDATE ledger_link SET details = $1, size = $2 WHERE batch = $3 AND seq = $4",
);

/** Under the lock of the batch; returns how many records were erased. */
async function putDetails(
  tx: Transaction,
  num: number,
  { seq, was, details, records }: KeptDetails,
): Promise<number> {
  type Row = { readonly body: string; readonly lines: string; readonly details: string | null };
  const link = await tx.get<Row>(SELECT_LINK, num, seq);
  if (link?.details !== was) return 0;
  const size = measureLink(link.body, { lines: link.lines, details });
  tx.send(UPDATE_DETAILS, details, size, num, seq);
  return records;
}

export interface EvidenceParts {
  readonly connection: Connection;
  readonly records: RecordLog;
  readonly ledger: Ledger;
  readonly topics: Topics;
  /** Under its lock; throws for an unknown batch. */
  readonly lock: (tx: Transaction, id: string) => Promise<BatchRow>;
}

export function composeEvidence(parts: EvidenceParts): LedgerStore {
  const { connection, records, ledger, topics, lock } = parts;
  const addSignedHead = async (
    tx: Transaction,
    { num, id }: BatchRow,
    signedHead: StoredSignedHead,
    afterSize: number,
  ): Promise<boolean> => {
    const [last, isHeard] = await Promise.all([
      tx.get<{ readonly size: number }>(SELECT_SIZE, num),
      topics.hasGroups(tx, SIGNED_HEADS_TOPIC),
    ]);
    if ((last?.size ?? 0) !== afterSize) return false;
    const { size, body, signature, tree } = signedHead;
    tx.send(INSERT_HEAD, num, size, body, signature, tree);
    if (isHeard) topics.add(tx, [describeSignedHead(id, signedHead)]);
    tx.notify();
    return true;
  };
  const erase = async (
    tx: Transaction,
    num: number,
    kept: readonly KeptDetails[],
    act: Act,
  ): Promise<number> => {
    let count = 0;
    for (const one of kept) count += await putDetails(tx, num, one);
    if (count === 0) return 0;
    const data = { records: count, ...describeAct(act) };
    await runAct(records.record(tx.rules, num, { type: "details.erased", data }));
    tx.notify();
    return count;
  };
  return {
    readLedger: (id, after, limit) => connection.read((tx) => ledger.read(tx, id, after, limit)),
    findSignedHead: (id) =>
      connection.read(async (tx) => (await tx.get<StoredSignedHead>(SELECT_LAST, id)) ?? null),
    readSignedHeads: (id) => connection.read((tx) => tx.all<StoredSignedHead>(SELECT_HEADS, id)),
    addSignedHead: (id, signedHead, afterSize) =>
      connection.write(async (tx) => addSignedHead(tx, await lock(tx, id), signedHead, afterSize)),
    readKeys: () => connection.read((tx) => tx.all<StoredKey>(SELECT_KEYS)),
    addKey: ({ id, body, signature }) =>
      connection.write(async (tx) => tx.send(INSERT_KEY, id, body, signature)),
    eraseDetails: (id, kept, act) =>
      connection.write(async (tx) => erase(tx, (await lock(tx, id)).num, kept, act)),
  };
}
