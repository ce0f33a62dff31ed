/** Signed heads of chains, the keys that signed them, and erasing, in SQL. */
import type { StatementSync } from "node:sqlite";
import { type Act, describeAct } from "../../../core/batch/batch.ts";
import {
  SIGNED_HEADS_TOPIC,
  describeSignedHead,
} from "../../../core/ledger/signed-head-message.ts";
import type {
  KeptDetails,
  LedgerStore,
  StoredSignedHead,
  StoredKey,
} from "../../../ports/store/ledger-store.ts";
import type { Connection } from "../connection/connection.ts";
import type { Ledger } from "./ledger.ts";
import { runNow } from "../../sql/dialect/act.ts";
import type { RecordLog } from "../../sql/rules/records.ts";
import type { Topics } from "../topics/topics.ts";

class Evidence {
  readonly #connection: Connection;
  readonly #records: RecordLog;
  readonly #topics: Topics;
  readonly #selectLast: StatementSync;
  readonly #selectSignedHeads: StatementSync;
  readonly #insertSignedHead: StatementSync;
  readonly #selectKeys: StatementSync;
  readonly #insertKey: StatementSync;
  readonly #updateDetails: StatementSync;

  constructor({ connection, records, topics }: EvidenceParts) {
    this.#connection = connection;
    this.#records = records;
    this.#topics = topics;
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    const ofBatch = `SELECT size, body, signature, tree FROM ledger_head
       WHERE batch = (SELECT num FROM batch WHERE id = ?) ORDER BY size`;
    this.#selectLast = prepare(`${ofBatch} DESC LIMIT 1`);
    this.#selectSignedHeads = prepare(ofBatch);
    this.#insertSignedHead = prepare(
      `INSERT INTO ledger_head (batch, size, body, signature, tree)
       SELECT :num, :size, :body, :signature, :tree WHERE :after =
         (SELECT coalesce(max(size), 0) FROM ledger_head WHERE batch = :num)`,
    );
    this.#selectKeys = prepare("SELECT id, body, signature FROM ledger_key ORDER BY place");
    this.#insertKey = prepare(
      `INSERT INTO ledger_key (id, body, signature) VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING`,
    );
    this.#updateDetails = prepare(
      "UPDATE ledger_link SET details = ? WHERE batch = ? AND seq = ? AND details = ?",
    );
  }

  findSignedHead(id: string): StoredSignedHead | null {
    return (this.#selectLast.get(id) as StoredSignedHead | undefined) ?? null;
  }

  readSignedHeads(id: string): StoredSignedHead[] {
    return this.#selectSignedHeads.all(id) as unknown as StoredSignedHead[];
  }

  addSignedHead(num: number, id: string, signedHead: StoredSignedHead, after: number): boolean {
    const { size, body, signature, tree } = signedHead;
    const row = { num, size, body, signature, tree, after };
    if (this.#insertSignedHead.run(row).changes === 0) return false;
    if (this.#topics.hasGroups(SIGNED_HEADS_TOPIC)) {
      this.#topics.add(describeSignedHead(id, signedHead));
    }
    return true;
  }

  readKeys(): StoredKey[] {
    return this.#selectKeys.all() as unknown as StoredKey[];
  }

  addKey({ id, body, signature }: StoredKey): void {
    this.#insertKey.run(id, body, signature);
  }

  erase(num: number, kept: readonly KeptDetails[], act: Act): number {
    let records = 0;
    for (const { seq, was, details, records: count } of kept) {
      if (this.#updateDetails.run(details, num, seq, was).changes > 0) records += count;
    }
    if (records === 0) return 0;
    const data = { records, ...describeAct(act) };
    const { rules } = this.#connection.transaction;
    runNow(this.#records.record(rules, num, { type: "details.erased", data }));
    return records;
  }
}

export interface EvidenceParts {
  readonly connection: Connection;
  readonly records: RecordLog;
  readonly ledger: Ledger;
  readonly topics: Topics;
  /** Throws for an unknown batch. */
  readonly findNum: (id: string) => number;
}

export function composeEvidence(parts: EvidenceParts): LedgerStore {
  const { connection, ledger, findNum } = parts;
  const evidence = new Evidence(parts);
  const read = <T>(look: () => T): Promise<T> => connection.read(look);
  const write = <T>(change: () => T): Promise<T> => connection.write(change);
  return {
    readLedger: (id, after, limit) => read(() => ledger.read(id, after, limit)),
    findSignedHead: (id) => read(() => evidence.findSignedHead(id)),
    readSignedHeads: (id) => read(() => evidence.readSignedHeads(id)),
    addSignedHead: (id, signedHead, afterSize) =>
      write(() => evidence.addSignedHead(findNum(id), id, signedHead, afterSize)),
    readKeys: () => read(() => evidence.readKeys()),
    addKey: (key) => write(() => evidence.addKey(key)),
    eraseDetails: (id, kept, act) => connection.erase(() => evidence.erase(findNum(id), kept, act)),
  };
}
