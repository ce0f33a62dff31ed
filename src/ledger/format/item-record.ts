/**
 * One line about one item: a state that it reached, when, and by which worker. Lines are canonical
 * JSON. They are written for every state of every item, so they are composed from prepared parts
 * rather than by the general writer; a test compares both.
 */
import { hash } from "node:crypto";
import { canonicalize, type Json } from "../../core/base/canonical-json.ts";

/**
 * The engine's own state for an item that reached its outcome without a recorded state: so every
 * item is in the ledger with its key and its content. States of pipelines are in capitals.
 */
export const SEEN = "seen";

/** The fields that all records of a chunk share. */
export interface ItemRecordPlace {
  readonly batch: string;
  readonly lane: string;
  readonly step: number;
  readonly worker: number;
}

export interface ItemRecordFacts {
  /** Milliseconds since 1970, UTC. */
  readonly atMs: number;
  readonly item: number;
  readonly key: string | null;
  /** A state of the pipeline, or `SEEN`. */
  readonly state: string;
  /** The attempt within its drive; 0 when it never started. */
  readonly attempt: number;
  readonly drive: number;
  /** SHA-256 of the item's canonical JSON, as hex; null when it was not read. */
  readonly content: string | null;
}

/**
 * Writes the records of one chunk. Ill-formed text is replaced: a record can always be written, and
 * its bytes can always be read again.
 */
export class ItemRecordWriter {
  readonly #afterAttempt: string;
  readonly #lane: string;
  readonly #end: string;
  #atMs = Number.NaN;
  #at = "";

  constructor({ batch, lane, step, worker }: ItemRecordPlace) {
    this.#afterAttempt = `,"batch":${quote(batch)}`;
    this.#lane = `,"lane":${quote(lane)},"state":`;
    this.#end = `,"step":${step},"v":1,"worker":${worker}}`;
  }

  /** The line, without its end. `details` is the result of `digestDetails`; null for none. */
  write(facts: ItemRecordFacts, details: string | null): string {
    const { atMs, item, key, state, attempt, drive, content } = facts;
    if (atMs !== this.#atMs) {
      this.#at = `{"at":"${new Date(atMs).toISOString()}","attempt":`;
      this.#atMs = atMs;
    }
    let line = this.#at + attempt + this.#afterAttempt;
    if (content !== null) line += `,"content":"${content}"`;
    if (details !== null) line += `,"details":"${details}"`;
    if (drive > 1) line += `,"drive":${drive}`;
    line += `,"item":${item}`;
    if (key !== null) line += `,"key":${quote(key)}`;
    return line + this.#lane + quote(state) + this.#end;
  }
}

/** Text that JSON writes without escapes, as most keys are. */
const PLAIN = /^[ !#-[\]-~]*$/;

function quote(text: string): string {
  return PLAIN.test(text) ? `"${text}"` : JSON.stringify(text.toWellFormed());
}

/**
 * The digest of an item's details for its record: salted, so that erased details cannot be guessed.
 */
export function digestDetails(salt: string, details: Json): string {
  return hash("sha256", Buffer.concat([Buffer.from(salt, "hex"), encode(details)]), "hex");
}

function encode(details: Json): Buffer {
  return Buffer.from(canonicalize(details));
}

/** Bytes of a salt; written as twice as many hex digits. */
export const SALT_BYTES = 16;

/**
 * Details and their salt as they are stored next to the chain, one line for each record with
 * details.
 */
export function writeDetailsLine(index: number, salt: string, details: Json): string {
  return canonicalize({ details, i: index, salt });
}
