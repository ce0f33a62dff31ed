/**
 * The open batches of a site's feeds: one file for each, named by the batch's key, which exists
 * from before the batch is opened until it is sealed. The next feed finds what a killed feed leaves
 * behind.
 */
import { randomUUID } from "node:crypto";
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { placeFile } from "./place-file.ts";

export class FeedRecords {
  readonly #folder: string;

  constructor(root: string, site: string) {
    this.#folder = join(root, site);
  }

  /** Returns the key of the batch to open. */
  async begin(): Promise<string> {
    await mkdir(this.#folder, { recursive: true });
    const key = `feed-${randomUUID()}`;
    await placeFile(join(this.#folder, key), (part) => writeFile(part, ""));
    return key;
  }

  async end(key: string): Promise<void> {
    await rm(join(this.#folder, key), { force: true });
  }

  /** The keys of batches that were begun and not ended. */
  async list(): Promise<string[]> {
    await mkdir(this.#folder, { recursive: true });
    const names = await readdir(this.#folder);
    return names.filter((name) => !name.endsWith(".part"));
  }
}
