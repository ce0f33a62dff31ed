/**
 * One line about one item: a state that it came to, when, by whom. Lines are canonical JSON, and are
 * written for every state of every item, so they are put together from parts that are ready rather
 * than by the general writer; a test holds both against each other.
 */
import { hash } from "node:crypto";
import { canonicalize, type Json } from "../../core/base/canonical-json.ts";

/**
 * The engine's own word, for an item that comes to its outcome without having recorded anything: so
 * every item is in the ledger with its key and its content. Those of pipelines are in capitals.
 */
export const SEEN = "seen";

/** What all records of a chunk have in common. */
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
  /** One of the pipeline's own, or `SEEN`. */
  readonly state: string;
  /** Which attempt of its drive; 0 when it never started. */
  readonly attempt: number;
  readonly drive: number;
  /** SHA-256 of the item's canonical JSON, as hex; null when it was not read. */
  readonly content: string | null;
}

/**
 * Writes the records of one chunk. Text that is not well-formed is mended: a record can always be
 * written, and its bytes can always be read again.
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

  /** The line, without its end. `details` is what `digestDetails` gives; null when there are none. */
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

/** Text that JSON writes as it is, which most keys are. */
const PLAIN = /^[ !#-[\]-~]*$/;

function quote(text: string): string {
  return PLAIN.test(text) ? `"${text}"` : JSON.stringify(text.toWellFormed());
}

/** What an item's details are in its record: salted, so that erased ones cannot be guessed. */
export function digestDetails(salt: string, details: Json): string {
  return hash("sha256", Buffer.concat([Buffer.from(salt, "hex"), encode(details)]), "hex");
}

function encode(details: Json): Buffer {
  return Buffer.from(canonicalize(details));
}

/** Bytes of a salt; written as twice as many hex digits. */
export const SALT_BYTES = 16;

/** Details and their salt as they are kept apart from the chain, a line for each record that has some. */
export function writeDetailsLine(index: number, salt: string, details: Json): string {
  return canonicalize({ details, i: index, salt });
}
