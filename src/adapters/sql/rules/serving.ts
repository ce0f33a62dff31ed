/** Which batches have a living worker. */
import type { Host } from "../host.ts";
import type { BatchRow } from "../rows.ts";
import type { Act } from "../dialect/act.ts";
import { statement } from "../dialect/statement.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";

const SELECT_SERVING = statement(
  `SELECT w.process FROM served s JOIN worker w ON w.id = s.worker
   WHERE s.pipeline = $1 AND s.version = $2 AND s.only_batch IN ('', $3) AND w.until > $4`,
);

export class Serving {
  readonly #host: Host;

  constructor(host: Host) {
    this.#host = host;
  }

  /** Whether a living worker accepts this batch. */
  *has(
    tx: RuleTransaction,
    { pipeline, version, id }: Pick<BatchRow, "pipeline" | "version" | "id">,
  ): Act<boolean> {
    yield* tx.begin();
    type Row = { readonly process: string };
    const now = Math.floor(tx.now);
    const rows = yield* tx.all<Row>(SELECT_SERVING, pipeline, version, id, now);
    return rows.some(({ process }) => !this.#host.isGone(process));
  }
}
