/**
 * Which batches the feeds of a site have open: a file named by the batch's key for each, there from
 * before the batch is opened until it is sealed. What a feed that was killed leaves is found by the next.
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

  /** Answers the key to open a batch with. */
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
