/**
 * One record per line, except that a line end between quotes belongs to its field. A quote counts
 * only at a field's start: the inch mark in `5" pipe` is text. Only an empty line is blank; one
 * with white space may be a record of one field.
 *
 * Not with csv-parse: after a letter behind a closing quote it skips all good records that follow,
 * and it finds the ends of records at a tenth of this speed (see csv-fields.ts for the fields).
 */
import { CARRIAGE_RETURN, LINE_FEED, type RecordScanner } from "../files/record-scanner.ts";

const QUOTE = 0x22;
const NO_BYTES = Buffer.alloc(0);

const RECORD_START = 0;
const FIELD_START = 1;
const UNQUOTED = 2;
const QUOTED = 3;
/** After a quote between quotes: the field's end, or the first half of a doubled one. */
const QUOTE_IN_QUOTED = 4;

export class CsvScanner implements RecordScanner {
  blank = true;
  lines = 0;
  readonly #delimiter: number;
  #bytes: Buffer = NO_BYTES;
  #state = RECORD_START;
  #quoteLine = -1;
  #sawReturn = false;
  /** The next quote at or after the search position; found once, used for many records. */
  #nextQuote = -1;

  constructor(delimiter: string) {
    this.#delimiter = delimiter.charCodeAt(0);
  }

  get openQuote(): number {
    return this.#state === QUOTED ? this.#quoteLine : -1;
  }

  take(bytes: Buffer): void {
    this.#bytes = bytes;
    this.#nextQuote = -1;
  }

  findEnd(position: number): number {
    if (this.#state === RECORD_START) {
      const end = this.#findPlainEnd(position);
      if (end !== -1) return end;
      this.lines = 0;
      this.blank = true;
      this.#sawReturn = false;
      this.#state = FIELD_START;
    }
    return this.#walk(position);
  }

  /** The end of a record without a quote before its line end: the common case. */
  #findPlainEnd(position: number): number {
    const bytes = this.#bytes;
    if (this.#nextQuote < position) {
      const quote = bytes.indexOf(QUOTE, position);
      this.#nextQuote = quote === -1 ? bytes.length : quote;
    }
    const lineFeed = bytes.indexOf(LINE_FEED, position);
    if (lineFeed === -1 || lineFeed > this.#nextQuote) return -1;
    this.lines = 1;
    this.blank =
      lineFeed === position || (lineFeed === position + 1 && bytes[position] === CARRIAGE_RETURN);
    return lineFeed + 1;
  }

  #walk(position: number): number {
    const bytes = this.#bytes;
    const delimiter = this.#delimiter;
    let state = this.#state;
    for (let at = position; at < bytes.length; at++) {
      const byte = bytes[at];
      if (state === QUOTED) {
        if (byte === QUOTE) state = QUOTE_IN_QUOTED;
        else if (byte === LINE_FEED) this.lines++;
      } else if (byte === LINE_FEED) {
        this.lines++;
        this.#state = RECORD_START;
        return at + 1;
      } else {
        if (this.blank) this.#noteContent(byte);
        if (byte === delimiter) {
          state = FIELD_START;
        } else if (byte === QUOTE && state === FIELD_START) {
          state = QUOTED;
          this.#quoteLine = this.lines;
        } else if (byte === QUOTE && state === QUOTE_IN_QUOTED) {
          state = QUOTED;
        } else {
          state = UNQUOTED;
        }
      }
    }
    this.#state = state;
    return -1;
  }

  /** A record is blank while it has at most one carriage return and nothing else. */
  #noteContent(byte: number | undefined): void {
    if (byte === CARRIAGE_RETURN && !this.#sawReturn) this.#sawReturn = true;
    else this.blank = false;
  }
}
