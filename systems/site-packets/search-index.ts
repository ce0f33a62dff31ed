/**
 * Full-text search over the archive, in a separate SQLite file. It contains only data of the
 * archive: it can be deleted and built again.
 */
import { DatabaseSync } from "node:sqlite";

/** A writer waits this long for another process's write. */
const BUSY_MS = 10_000;

export interface IndexedDocument {
  readonly sha256: string;
  readonly site: string;
  readonly document: string;
  readonly type: string;
}

export interface SearchHit extends IndexedDocument {
  /** A few words around the match, which is in brackets. */
  readonly excerpt: string;
}

export class SearchIndex {
  readonly #db: DatabaseSync;

  constructor(path: string) {
    this.#db = new DatabaseSync(path, { timeout: BUSY_MS });
    this.#db.exec(`
      PRAGMA journal_mode = WAL;
      PRAGMA synchronous = NORMAL;
      CREATE TABLE IF NOT EXISTS document (
        id INTEGER PRIMARY KEY,
        sha256 TEXT NOT NULL,
        site TEXT NOT NULL,
        document TEXT NOT NULL,
        type TEXT NOT NULL,
        UNIQUE (site, document, sha256)
      ) STRICT;
      CREATE VIRTUAL TABLE IF NOT EXISTS document_text
        USING fts5 (body, tokenize = 'porter unicode61');
    `);
  }

  /** The same document with the same content is indexed once. */
  add({ sha256, site, document, type }: IndexedDocument, text: string): void {
    this.#db.exec("BEGIN IMMEDIATE");
    try {
      const added = this.#db
        .prepare(
          `INSERT INTO document (sha256, site, document, type) VALUES (?, ?, ?, ?)
           ON CONFLICT DO NOTHING RETURNING id`,
        )
        .get(sha256, site, document, type);
      if (added !== undefined) {
        this.#db
          .prepare("INSERT INTO document_text (rowid, body) VALUES (?, ?)")
          .run(added["id"] as number, text);
      }
      this.#db.exec("COMMIT");
    } catch (error) {
      // A full disk has already ended the transaction.
      if (this.#db.isTransaction) this.#db.exec("ROLLBACK");
      throw error;
    }
  }

  /** Documents with all these words next to each other, the best first. */
  search(words: string, limit: number): SearchHit[] {
    return this.#db
      .prepare(
        `SELECT sha256, site, document, type,
                snippet(document_text, 0, '[', ']', '…', 12) AS excerpt
           FROM document_text JOIN document ON document.id = document_text.rowid
          WHERE document_text MATCH ? ORDER BY rank, document.id LIMIT ?`,
      )
      .all(formatPhrase(words), limit)
      .map((row) => ({ ...row }) as unknown as SearchHit);
  }

  count(words: string): number {
    const row = this.#db
      .prepare("SELECT count(*) AS count FROM document_text WHERE document_text MATCH ?")
      .get(formatPhrase(words));
    return row?.["count"] as number;
  }

  close(): void {
    this.#db.close();
  }
}

/** In quotes it is a phrase without operators. A NUL would end it. */
function formatPhrase(words: string): string {
  return `"${words.replaceAll("\0", " ").replaceAll('"', '""')}"`;
}
