/**
 * Cuts a stream of bytes into slices: a slice ends after `chunkSize` items or when its bytes
 * reach `sliceBytesMax`. Only counters and a running checksum are kept, so a line may have any
 * length.
 *
 * A slice begins at its first item: blank records before it are in no slice. A record longer than
 * `itemBytesMax` (blank or not) ends the slice before it and gets its own slice, so that no reader
 * has to load it. Whether a record is that long is known only at its end, perhaps many buffers
 * later. That is why there is a second checksum, taken where the record began.
 */
import { crc32 } from "node:zlib";
import type { FilePosition, RecordRange } from "./record-range.ts";
import type { RecordScanner } from "./record-scanner.ts";

export interface SliceLimits {
  readonly chunkSize: number;
  readonly sliceBytesMax: number;
  readonly itemBytesMax: number;
}

/** A finished slice, and where to look for the next one. */
export interface BuiltSlice extends RecordRange {
  readonly next: FilePosition;
}

const NO_BYTES = Buffer.alloc(0);

export class SliceBuilder {
  readonly #scanner: RecordScanner;
  readonly #limits: SliceLimits;
  /** Where in the file the current bytes begin. */
  #base: number;
  #recordFrom: number;
  #recordLine: number;
  #sliceFrom: number;
  #sliceLine: number;
  #items = 0;
  /** Checksum of the slice up to `#crcTo`. */
  #crc = 0;
  #crcTo: number;
  /** Checksum of the slice up to the current record, if that began in earlier bytes. */
  #crcBeforeRecord = 0;

  constructor(scanner: RecordScanner, start: FilePosition, limits: SliceLimits) {
    this.#scanner = scanner;
    this.#limits = limits;
    this.#base = start.byte;
    this.#recordFrom = start.byte;
    this.#recordLine = start.line;
    this.#sliceFrom = start.byte;
    this.#sliceLine = start.line;
    this.#crcTo = start.byte;
  }

  /** Processes the next bytes of the file; returns the slices that ended in them. */
  feed(bytes: Buffer): BuiltSlice[] {
    const built: BuiltSlice[] = [];
    this.#scanner.take(bytes);
    for (let position = 0; position < bytes.length; ) {
      position = this.#scanner.findEnd(position);
      if (position === -1) break;
      this.#endRecord(bytes, this.#base + position, built);
    }
    this.#carryChecksum(bytes);
    this.#base += bytes.length;
    return built;
  }

  /** The file ends here; its last record needs no line end. */
  finish(): BuiltSlice[] {
    const built: BuiltSlice[] = [];
    if (this.#recordFrom < this.#base) this.#endRecord(NO_BYTES, this.#base, built);
    if (this.#items > 0) built.push(this.#close(this.#recordFrom, this.#crc));
    return built;
  }

  #endRecord(bytes: Buffer, to: number, built: BuiltSlice[]): void {
    const { chunkSize, sliceBytesMax, itemBytesMax } = this.#limits;
    const { blank, lines } = this.#scanner;
    if (to - this.#recordFrom > itemBytesMax) {
      if (this.#items > 0) built.push(this.#close(this.#recordFrom, this.#crcBefore(bytes)));
      if (!blank) built.push(this.#overlong(to));
      this.#recordFrom = to;
      this.#recordLine += lines;
      this.#beginSlice();
      return;
    }
    if (!blank) this.#items++;
    this.#recordFrom = to;
    this.#recordLine += lines;
    if (this.#items === 0) {
      this.#beginSlice();
    } else if (this.#items >= chunkSize || to - this.#sliceFrom >= sliceBytesMax) {
      built.push(this.#close(to, this.#crcUpTo(bytes, to)));
      this.#beginSlice();
    }
  }

  #beginSlice(): void {
    this.#sliceFrom = this.#recordFrom;
    this.#sliceLine = this.#recordLine;
    this.#items = 0;
    this.#crc = 0;
    this.#crcTo = this.#recordFrom;
    this.#crcBeforeRecord = 0;
  }

  #close(to: number, crc: number): BuiltSlice {
    return {
      from: this.#sliceFrom,
      to,
      line: this.#sliceLine,
      items: this.#items,
      crc,
      overlong: false,
      openQuoteLine: 0,
      next: { byte: to, line: this.#recordLine },
    };
  }

  /**
   * Its checksum is that of its head, which is no longer in memory: the caller, who has the file,
   * adds it.
   */
  #overlong(to: number): BuiltSlice {
    const { lines, openQuote } = this.#scanner;
    return {
      from: this.#recordFrom,
      to,
      line: this.#recordLine,
      items: 1,
      crc: 0,
      overlong: true,
      openQuoteLine: openQuote === -1 ? 0 : this.#recordLine + openQuote,
      next: { byte: to, line: this.#recordLine + lines },
    };
  }

  /** The checksum of the slice up to an offset at or after the end of the current bytes. */
  #crcUpTo(bytes: Buffer, to: number): number {
    if (to <= this.#crcTo) return this.#crc;
    return crc32(bytes.subarray(this.#crcTo - this.#base, to - this.#base), this.#crc);
  }

  /** The checksum of the slice up to the current record. */
  #crcBefore(bytes: Buffer): number {
    return this.#recordFrom < this.#base
      ? this.#crcBeforeRecord
      : this.#crcUpTo(bytes, this.#recordFrom);
  }

  /** The bytes are about to be overwritten: adds them to the checksum now. */
  #carryChecksum(bytes: Buffer): void {
    const end = this.#base + bytes.length;
    if (this.#recordFrom >= this.#base) {
      this.#crc = this.#crcUpTo(bytes, this.#recordFrom);
      this.#crcTo = this.#recordFrom;
      this.#crcBeforeRecord = this.#crc;
    }
    // Beyond the limit the record is in no checksum: a line of gigabytes is only skipped.
    if (end - this.#recordFrom > this.#limits.itemBytesMax) return;
    this.#crc = this.#crcUpTo(bytes, end);
    this.#crcTo = end;
  }
}
