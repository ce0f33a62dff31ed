/**
 * Rows of CSV (RFC 4180), without their line end. A text that a spreadsheet would treat as a
 * formula gets an apostrophe before it: results may contain texts from strangers, and opening a
 * file must not run them.
 */
const FORMULA_START = /^[=+\-@\t\r\n＝＋－＠]/;
const NEEDS_QUOTES = /[",\r\n]|^\s|\s$/;

export type CsvCell = string | number | boolean | null;

export function writeCsvRow(cells: readonly CsvCell[]): string {
  return cells.map(writeCell).join(",");
}

/** Numbers stay as they are: a minus before digits is a sign, not a formula. */
function writeCell(cell: CsvCell): string {
  if (cell === null) return "";
  if (typeof cell !== "string") return String(cell);
  const safe = FORMULA_START.test(cell) ? `'${cell}` : cell;
  return NEEDS_QUOTES.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
