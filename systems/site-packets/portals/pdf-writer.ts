/**
 * A writer of PDF files that always writes the same bytes: numbered objects, a real table of where
 * they begin, and no date. A library would do for the texts, but not for files that are broken or
 * hostile in exactly the way that is wanted.
 *
 * The catalogue comes last. A reader that repairs a file whose end is missing searches for the
 * catalogue among the objects, and must not find one in a document that was cut.
 */
import { createHash } from "node:crypto";
import { deflateSync } from "node:zlib";

/** A4 in points. */
export const PAGE_WIDTH_PT = 595;
export const PAGE_HEIGHT_PT = 842;

export type ObjectNumber = number;

export class PdfWriter {
  readonly #parts: Buffer[] = [];
  readonly #offsets: (number | undefined)[] = [];
  #lengthBytes = 0;
  readonly #pages: ObjectNumber[] = [];
  readonly #pageTree: ObjectNumber;

  constructor() {
    // The comment of four bytes above 127 marks the file as binary for programs that transfer it.
    this.#append(Buffer.from("%PDF-1.7\n%\u00e2\u00e3\u00cf\u00d3\n", "latin1"));
    this.#pageTree = this.#reserve();
  }

  addObject(body: string): ObjectNumber {
    const object = this.#reserve();
    this.#writeObject(object, Buffer.from(body, "latin1"));
    return object;
  }

  addCompressedStream(content: Uint8Array, dictionary = ""): ObjectNumber {
    return this.addStream(deflateSync(content), `${dictionary}/Filter/FlateDecode`);
  }

  /** `content` is written as it is: the dictionary says what filters it went through. */
  addStream(content: Uint8Array, dictionary: string): ObjectNumber {
    const object = this.#reserve();
    const head = `<<${dictionary}/Length ${content.length}>>\nstream\n`;
    this.#writeObject(
      object,
      Buffer.concat([Buffer.from(head, "latin1"), content, Buffer.from("\nendstream")]),
    );
    return object;
  }

  addPage(content: ObjectNumber, resources: string): void {
    this.#pages.push(
      this.addObject(
        `<</Type/Page/Parent ${this.#pageTree} 0 R/MediaBox[0 0 ${PAGE_WIDTH_PT} ${PAGE_HEIGHT_PT}]` +
          `/Resources<<${resources}>>/Contents ${content} 0 R>>`,
      ),
    );
  }

  /** The whole file; nothing can be added any more. */
  finish(): Buffer {
    const kids = this.#pages.map((page) => `${page} 0 R`).join(" ");
    this.#writeObject(
      this.#pageTree,
      Buffer.from(`<</Type/Pages/Kids[${kids}]/Count ${this.#pages.length}>>`),
    );
    const catalogue = this.addObject(`<</Type/Catalog/Pages ${this.#pageTree} 0 R>>`);
    const tableAt = this.#lengthBytes;
    const id = createHash("md5").update(Buffer.concat(this.#parts)).digest("hex");
    const entries = this.#offsets.map(
      (offset) => `${String(offset ?? 0).padStart(10, "0")} 00000 n \n`,
    );
    const size = entries.length + 1;
    this.#append(
      Buffer.from(
        `xref\n0 ${size}\n0000000000 65535 f \n${entries.join("")}` +
          `trailer\n<</Size ${size}/Root ${catalogue} 0 R/ID[<${id}><${id}>]>>\n` +
          `startxref\n${tableAt}\n%%EOF\n`,
      ),
    );
    return Buffer.concat(this.#parts);
  }

  /** Objects are numbered from 1. */
  #reserve(): ObjectNumber {
    return this.#offsets.push(undefined);
  }

  #writeObject(object: ObjectNumber, body: Buffer): void {
    this.#offsets[object - 1] = this.#lengthBytes;
    this.#append(Buffer.from(`${object} 0 obj\n`), body, Buffer.from("\nendobj\n"));
  }

  #append(...parts: readonly Buffer[]): void {
    for (const part of parts) {
      this.#parts.push(part);
      this.#lengthBytes += part.length;
    }
  }
}
