/**
 * Splits the text of one record into its fields.
 *
 * Hand-written rather than with a CSV library: the record's bounds are already known, so it is only
 * a page of code; it has to agree with the scanner on every odd quote; it names the column of an
 * error; and it was measured to be three to five times faster than csv-parse, which the tests
 * compare it with.
 */

export interface CsvFault {
  readonly problem: string;
  /** In characters of the record, from 0. */
  readonly offset: number;
}

/** The fields of a record without its line end, or the first fault in it. */
export function splitFields(record: string, delimiter: string): string[] | CsvFault {
  if (!record.includes('"')) return record.split(delimiter);
  const fields: string[] = [];
  for (let at = 0; ; ) {
    if (record[at] === '"') {
      const end = findClosingQuote(record, at);
      if (end === -1) return { problem: "this quote is never closed", offset: at };
      const text = record.slice(at + 1, end);
      fields.push(text.includes('"') ? text.replaceAll('""', '"') : text);
      at = end + 1;
      if (at < record.length && record[at] !== delimiter) {
        return { problem: "text after a closing quote", offset: at };
      }
    } else {
      const end = record.indexOf(delimiter, at);
      fields.push(end === -1 ? record.slice(at) : record.slice(at, end));
      at = end === -1 ? record.length : end;
    }
    if (at >= record.length) return fields;
    // Skips the delimiter. When nothing follows it, the next round adds an empty last field.
    at++;
  }
}

/** The quote that ends the field opened at `open`; doubled ones belong to its text. */
function findClosingQuote(record: string, open: number): number {
  for (let at = open + 1; ; at += 2) {
    at = record.indexOf('"', at);
    if (at === -1 || record[at + 1] !== '"') return at;
  }
}

/** A record's text without the line end after it. */
export function stripLineEnd(record: string): string {
  const end = record.endsWith("\n") ? record.length - 1 : record.length;
  return record.slice(0, record[end - 1] === "\r" ? end - 1 : end);
}
