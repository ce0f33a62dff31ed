/** A record too long to be loaded: its slice holds one item, and that item is an error. */
import type { SliceItems } from "../../ports/source.ts";
import { type BadRecord, describeBadRecord } from "./bad-record.ts";
import type { RecordRange } from "./record-range.ts";

export class OverlongRecord implements SliceItems {
  readonly count = 1;
  readonly #bad: BadRecord;

  constructor(
    what: "line" | "record",
    path: string,
    range: RecordRange,
    head: Buffer,
    itemBytesMax: number,
  ) {
    const place = { path, line: range.line, text: head.toString("utf8") };
    const bytes = range.to - range.from;
    this.#bad =
      range.openQuoteLine > 0
        ? {
            ...place,
            code: "MALFORMED_RECORD",
            problem: `a quote opened on line ${range.openQuoteLine} is never closed, so the last ${bytes} bytes of the file are one record`,
            remedy: "Close the quote, or double it if it belongs to the text.",
          }
        : {
            ...place,
            code: what === "line" ? "LINE_TOO_LONG" : "RECORD_TOO_LONG",
            problem: `the ${what} has ${bytes} bytes, and at most ${itemBytesMax} are read`,
            remedy: `Make it shorter, for example with a path in place of the content, or raise itemBytesMax.`,
          };
  }

  at(): never {
    throw describeBadRecord(this.#bad);
  }
}
