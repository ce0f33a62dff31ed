/** Writes the rows of chunks that a slicer has planned, and the items that the batch owns. */
import { createOutcomeMap } from "../../../core/items/outcome-map.ts";
import type { WriteChunks } from "../../sql/rules/planning.ts";
import { statement } from "../../sql/dialect/statement.ts";

const INSERT_CHUNK = statement(
  `INSERT INTO chunk (batch, step, chunk, start, finish, outcomes, locator)
   VALUES ($1, $2, $3, $4, $5, $6, $7)`,
);
const INSERT_MANIFEST = statement(
  "INSERT INTO manifest (batch, step, chunk, part, items) VALUES ($1, $2, $3, $4, $5)",
);

export const writeChunks: WriteChunks = (tx, { batch, step, part }, chunks) => {
  for (const { chunk, start, items, locator, manifest } of chunks) {
    const outcomes = createOutcomeMap(items);
    tx.send(INSERT_CHUNK, batch, step, chunk, start, start + items, outcomes, locator);
    if (manifest !== null) tx.send(INSERT_MANIFEST, batch, step, chunk, part, manifest);
  }
};
