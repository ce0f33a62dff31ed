/**
 * The CSV columns of a batch's results: one for each field if every value is a flat object, else
 * one with the value as JSON. Found by a first pass over the results, in bounded memory.
 */
import type { StoredResult } from "../../ports/store/query-store.ts";
import type { CsvCell } from "../output/csv-text.ts";

/** Results with more fields do not fit a table. */
const FIELDS_MAX = 500;
const OWN_COLUMNS = ["item", "key"];

export interface ResultColumns {
  readonly titles: readonly string[];
  readonly row: (result: StoredResult) => CsvCell[];
}

export async function findColumns(
  pages: AsyncIterable<readonly StoredResult[]>,
): Promise<ResultColumns> {
  const fields = new Set<string>();
  let isEmpty = true;
  for await (const page of pages) {
    isEmpty = false;
    for (const { value } of page) {
      const flat = readFlat(value);
      if (flat === null) return VALUE_COLUMN;
      for (const field of Object.keys(flat)) fields.add(field);
      if (fields.size > FIELDS_MAX) return VALUE_COLUMN;
    }
  }
  return isEmpty ? VALUE_COLUMN : describeFields([...fields]);
}

const VALUE_COLUMN: ResultColumns = {
  titles: [...OWN_COLUMNS, "value"],
  row: ({ item, key, value }) => [item, key, readScalar(value)],
};

function describeFields(fields: readonly string[]): ResultColumns {
  return {
    titles: [
      ...OWN_COLUMNS,
      ...fields.map((field) => (OWN_COLUMNS.includes(field) ? `value.${field}` : field)),
    ],
    row: ({ item, key, value }) => {
      const flat = readFlat(value) ?? {};
      return [
        item,
        key,
        ...fields.map((field) => (Object.hasOwn(flat, field) ? (flat[field] ?? null) : null)),
      ];
    },
  };
}

/** A flat object, or null. */
function readFlat(text: string): Readonly<Record<string, CsvCell>> | null {
  const value = JSON.parse(text) as unknown;
  if (typeof value !== "object" || value === null || Array.isArray(value)) return null;
  return Object.values(value).every((one) => typeof one !== "object" || one === null)
    ? (value as Record<string, CsvCell>)
    : null;
}

/** In the single column numbers stay numbers; everything else is JSON text. */
function readScalar(text: string): CsvCell {
  const value = JSON.parse(text) as unknown;
  return typeof value === "number" ? value : text;
}
