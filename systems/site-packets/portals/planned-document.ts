/**
 * One entry of a corpus: what a site offers, its faults, and its expected final state. Kinds
 * describe the document and its line of the manifest; the portal's faults are in `faults.ts`,
 * except for the three `never-...` kinds, which no number of attempts delivers.
 */

export const DOCUMENT_KINDS = [
  /** Born digital: its text can be read from the file. */
  "text",
  /** Images of pages, without any text in the file. */
  "scan",
  /** The same bytes under the same id of the same site, once more. */
  "same-again",
  /** The same bytes under another id. */
  "same-under-other-id",
  "encrypted",
  /** The first part of a PDF. */
  "truncated",
  /** No bytes at all. */
  "empty",
  /** A web page, an image or an archive that is called .pdf. */
  "wrong-type",
  /** A few kilobytes that inflate to more than a gibibyte. */
  "bomb",
  /** A good file, described by a schema version that is no longer accepted. */
  "old-schema",
  /** A good file whose manifest says another checksum. */
  "wrong-checksum",
  /** One byte more than the download limit. */
  "too-large",
  /** A good file of an unknown type. */
  "unknown-type",
  /** Its portal always answers 404. */
  "never-found",
  /** Its portal accepts the request and never answers. */
  "never-answers",
  /** Its portal always cuts the connection in the middle. */
  "never-whole",
] as const;

export type DocumentKind = (typeof DOCUMENT_KINDS)[number];

export const DOCUMENT_TYPES = ["protocol", "approval", "lab-certificate", "cv"] as const;

export interface Expected {
  readonly state: "ARCHIVED" | "DEDUPED" | "REJECTED";
  readonly code: string | null;
}

export interface PlannedDocument {
  /** `site-01` and so on. */
  readonly site: string;
  /** Unique within its site, except for `same-again`. */
  readonly document: string;
  /** One of DOCUMENT_TYPES, but for `unknown-type`. */
  readonly type: string;
  readonly schemaVersion: string;
  /** `/documents/<index>.pdf`: unique for each entry of the corpus, whatever its site. */
  readonly path: string;
  readonly kind: DocumentKind;
  /** 0 if it is not a PDF. */
  readonly pages: number;
  /** The index of the earlier entry whose bytes it repeats. */
  readonly copyOf: number | null;
  /** Besides kind, type and pages, the text and the bytes depend only on this; copies share it. */
  readonly contentSeed: number;
  /** Under the fault profile `demo`, for a client with enough attempts: see ATTEMPTS_NEEDED_MAX. */
  readonly expected: Expected;
}

const ARCHIVED: Expected = { state: "ARCHIVED", code: null };

const reject = (code: string): Expected => ({ state: "REJECTED", code });

export const EXPECTED: Readonly<Record<DocumentKind, Expected>> = {
  text: ARCHIVED,
  scan: ARCHIVED,
  "same-again": { state: "DEDUPED", code: null },
  "same-under-other-id": ARCHIVED,
  encrypted: reject("ENCRYPTED"),
  truncated: reject("PARSER_FAILURE"),
  empty: reject("EMPTY"),
  "wrong-type": reject("WRONG_TYPE"),
  bomb: reject("TOO_LARGE"),
  "old-schema": reject("SCHEMA_MISMATCH"),
  "wrong-checksum": reject("CHECKSUM_MISMATCH"),
  "too-large": reject("TOO_LARGE"),
  "unknown-type": reject("SCHEMA_MISMATCH"),
  "never-found": reject("DOWNLOAD_FAILED"),
  "never-answers": reject("DOWNLOAD_FAILED"),
  "never-whole": reject("DOWNLOAD_FAILED"),
};
