/**
 * The archive: a folder in which a file's name is the hash of its content. The same content is
 * stored once, from whichever site. Beside it are its text and a description of each document that
 * had this content. Adding the same again changes nothing.
 */
import { hash } from "node:crypto";
import { copyFile, link, mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { flush, isThere, placeFile } from "./place-file.ts";

/** The description of each document that had a content. */
export interface ArchivedDocument {
  readonly site: string;
  readonly document: string;
  readonly type: string;
  readonly schemaVersion: string;
  readonly url: string;
  readonly sha256: string;
  readonly bytes: number;
  readonly pages: number;
  readonly characters: number;
  /** The source of its text. */
  readonly textFrom: "pdf" | "ocr";
  readonly batch: string;
  readonly archivedAt: string;
}

export class Archive {
  readonly #root: string;

  constructor(root: string) {
    this.#root = root;
  }

  placeContent(sha256: string): string {
    return `${this.#placeBase(sha256)}.pdf`;
  }

  placeText(sha256: string): string {
    return `${this.#placeBase(sha256)}.txt`;
  }

  /**
   * Site and document are texts from outside and must not be file names, so a hash of them is used.
   */
  placeDocument(sha256: string, site: string, document: string): string {
    const name = hash("sha256", JSON.stringify([site, document])).slice(0, 16);
    return `${this.#placeBase(sha256)}.${name}.json`;
  }

  #placeBase(sha256: string): string {
    return join(this.#root, sha256.slice(0, 2), sha256);
  }

  /** The description of the document is written last: if it exists, everything does. */
  async add(found: ArchivedDocument, content: string, text: string): Promise<void> {
    const { sha256, site, document } = found;
    const made = await mkdir(dirname(this.placeContent(sha256)), { recursive: true });
    if (made !== undefined) await flush(this.#root);
    await addOnce(content, this.placeContent(sha256), linkOrCopy);
    // Never a link: another attempt writes the text again, into the same file.
    await addOnce(text, this.placeText(sha256), copyFile);
    await placeFile(this.placeDocument(sha256, site, document), (part) =>
      writeFile(part, `${JSON.stringify(found, null, 2)}\n`),
    );
  }
}

type Copy = (from: string, to: string) => Promise<void>;

/**
 * A hard link to the same bytes, if the disk supports it. Safe because receiving renames files and
 * never writes into them.
 */
const linkOrCopy: Copy = (from, to) => link(from, to).catch(() => copyFile(from, to));

async function addOnce(from: string, to: string, copy: Copy): Promise<void> {
  if (await isThere(to)) return;
  await placeFile(to, (part) => copy(from, part));
}
