/** Writes the rows of chunks that a slicer has planned, and the items that the batch owns. */
import { countMapBytes, createOutcomeMap } from "../../../core/items/outcome-map.ts";
import type { WriteChunks } from "../../sql/rules/planning.ts";
import { statement } from "../../sql/dialect/statement.ts";

// No item has an outcome yet: one map serves all, and each chunk gets a prefix of it.
const INSERT_CHUNKS = statement(
  `INSERT INTO chunk (batch, step, chunk, start, finish, outcomes, locator)
   SELECT $1, $2, n.chunk, n.start, n.finish, substring($6::bytea FROM 1 FOR n.bytes), n.locator
   FROM unnest($3::int[], $4::bigint[], $5::bigint[], $7::int[], $8::text[])
     AS n(chunk, start, finish, bytes, locator)`,
);
// All bytes are sent as one value, in binary: a list of byte strings would be sent as text.
const INSERT_MANIFESTS = statement(
  `INSERT INTO manifest (batch, step, chunk, part, items)
   SELECT $1, $2, n.chunk, $3, substring($6::bytea FROM n.first FOR n.bytes)
   FROM unnest($4::int[], $5::int[], $7::int[]) AS n(chunk, first, bytes)`,
);

export const writeChunks: WriteChunks = (tx, { batch, step, part }, chunks) => {
  tx.send(
    INSERT_CHUNKS,
    batch,
    step,
    chunks.map(({ chunk }) => chunk),
    chunks.map(({ start }) => start),
    chunks.map(({ start, items }) => start + items),
    createOutcomeMap(Math.max(...chunks.map(({ items }) => items))),
    chunks.map(({ items }) => countMapBytes(items)),
    chunks.map(({ locator }) => locator),
  );
  const owned = chunks.flatMap(({ chunk, manifest }) =>
    manifest === null ? [] : [{ chunk, manifest }],
  );
  if (owned.length === 0) return;
  const sizes = owned.map(({ manifest }) => manifest.byteLength);
  let next = 1;
  tx.send(
    INSERT_MANIFESTS,
    batch,
    step,
    part,
    owned.map(({ chunk }) => chunk),
    sizes.map((size) => (next += size) - size),
    Buffer.concat(owned.map(({ manifest }) => manifest)),
    sizes,
  );
};
