/**
 * The paths of everything: one folder with the store, the spool, the archive, the index and the
 * evidence.
 */
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";

export class Folders {
  readonly root: string;
  readonly store: string;
  readonly ledgerKey: string;
  readonly searchIndex: string;
  readonly archive: string;
  readonly evidence: string;
  readonly runs: string;
  readonly feeds: string;
  readonly spool: string;

  constructor(root: string) {
    this.root = root;
    this.store = join(root, "site-packets.db");
    this.ledgerKey = join(root, "ledger.key");
    this.searchIndex = join(root, "search.db");
    this.archive = join(root, "archive");
    this.evidence = join(root, "evidence");
    this.runs = join(root, "runs");
    this.feeds = join(root, "feeds");
    this.spool = join(root, "spool");
  }

  async make(): Promise<void> {
    for (const folder of [this.archive, this.evidence, this.runs, this.spool]) {
      await mkdir(folder, { recursive: true });
    }
  }

  /** A document's file in the spool: named by batch and number, never by a name from the site. */
  async placeInSpool(batch: string, index: number): Promise<string> {
    const folder = join(this.spool, batch);
    await mkdir(folder, { recursive: true });
    return join(folder, `${index}.bin`);
  }

  async clearSpool(batch: string): Promise<void> {
    await rm(join(this.spool, batch), { recursive: true, force: true });
  }
}
