/** One record per line; a line with nothing but JSON's white space is blank. */
import { CARRIAGE_RETURN, LINE_FEED, type RecordScanner } from "../files/record-scanner.ts";

const SPACE = 0x20;
const TAB = 0x09;
const NO_BYTES = Buffer.alloc(0);

export class LineScanner implements RecordScanner {
  blank = true;
  lines = 0;
  readonly openQuote = -1;
  #bytes: Buffer = NO_BYTES;

  take(bytes: Buffer): void {
    this.#bytes = bytes;
  }

  findEnd(position: number): number {
    const bytes = this.#bytes;
    // A line has already ended: this is a new one.
    if (this.lines === 1) {
      this.lines = 0;
      this.blank = true;
    }
    const lineFeed = bytes.indexOf(LINE_FEED, position);
    if (this.blank) {
      const end = lineFeed === -1 ? bytes.length : lineFeed;
      this.blank = isWhite(bytes, position, end);
    }
    if (lineFeed === -1) return -1;
    this.lines = 1;
    return lineFeed + 1;
  }
}

function isWhite(bytes: Buffer, from: number, to: number): boolean {
  for (let at = from; at < to; at++) {
    const byte = bytes[at];
    if (byte !== SPACE && byte !== TAB && byte !== CARRIAGE_RETURN) return false;
  }
  return true;
}
