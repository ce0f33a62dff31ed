/**
 * What handlers recorded of a chunk's items and the store does not have yet: lines for the ledger,
 * gathered into blocks outside of any transaction. A block that was sent does not change until the
 * store answers, so that the store recognises it when it is sent again.
 */
import { hash } from "node:crypto";
import { canonicalize, type Json } from "../../core/base/canonical-json.ts";
import { PermanentError, SluiceError } from "../../core/base/errors.ts";
import type { LedgerBlock } from "../../core/ledger/item-ledger.ts";
import { holdsSecret, type Redact, redactValue } from "../../core/base/redact.ts";
import { formatDidYouMean, findSimilar } from "../../core/base/similar-words.ts";
import { BlockBuilder } from "../../ledger/format/block.ts";
import { SALT_BYTES } from "../../ledger/format/item-record.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Random } from "../../ports/random.ts";
import { writeJson } from "./chunk-notes.ts";
import type { RunFacts } from "./run-facts.ts";

/** A block is closed at this size. */
const BLOCK_CHARS_MAX = 1_000_000;
/** Assumed size of a line without its key and details. */
const LINE_CHARS = 300;
export const DETAILS_CHARS_MAX = 65_536;

/** The worker and clock that are written into each line. */
export interface LedgerParts {
  readonly worker: number;
  readonly clock: Pick<Clock, "wallMs">;
  readonly random: Random;
  /** Takes secrets out of what is recorded. */
  readonly redact: Redact;
}

/** A state that an item has reached. */
export interface RecordedState {
  /** The item's number in its step. */
  readonly item: number;
  readonly key: string | null;
  readonly attempt: number;
  readonly drive: number;
  readonly state: string;
  readonly details: unknown;
  /** Reads the item as its source has it. */
  readonly read: () => unknown;
}

const NO_BLOCKS: readonly LedgerBlock[] = [];

export class LedgerLines {
  readonly #parts: LedgerParts;
  #open: BlockBuilder | null = null;
  #chars = 0;
  #blockCount = 0;
  #blocks: LedgerBlock[] = [];
  /** Items with a line: only the first line of an item holds its content hash. */
  readonly #recordedItems = new Set<number>();

  constructor(parts: LedgerParts) {
    this.#parts = parts;
  }

  add({ batch, lane, step }: RunFacts, recorded: RecordedState): void {
    const { worker, clock } = this.#parts;
    const { item, key, attempt, drive, state, details, read } = recorded;
    const kept = details === undefined ? null : this.#salt(state, details);
    const content = this.#recordedItems.has(item) ? null : hashItem(read);
    this.#open ??= new BlockBuilder({ batch, lane, step, worker });
    const facts = { item, key, attempt, drive, state, content };
    this.#open.add({ atMs: clock.wallMs(), ...facts }, kept);
    this.#recordedItems.add(item);
    this.#chars += LINE_CHARS + (key?.length ?? 0) + (kept?.chars ?? 0);
    if (this.#chars >= BLOCK_CHARS_MAX) this.#close();
  }

  hasRecorded(item: number): boolean {
    return this.#recordedItems.has(item);
  }

  /** Details with a random salt: when they are erased, their hash does not allow guessing them. */
  #salt(
    state: string,
    given: unknown,
  ): { readonly salt: string; readonly details: Json; readonly chars: number } {
    const what = `what it records with ${state}`;
    const { random, redact } = this.#parts;
    const safe = holdsSecret(given, redact) ? redactValue(given, redact) : given;
    const text = writeJson(safe, what, "BAD_DETAILS");
    if (text.length > DETAILS_CHARS_MAX) {
      throw new PermanentError(
        `${what} has ${text.length} characters, over the limit of ${DETAILS_CHARS_MAX}; keep large values elsewhere and record where they are`,
        { code: "BAD_DETAILS" },
      );
    }
    const salt = hash("sha256", random.id() + random.id() + random.id()).slice(0, SALT_BYTES * 2);
    return { salt, details: readDetails(text, what), chars: text.length };
  }

  /** For a report: all blocks that the store has not confirmed, in order. */
  list(): readonly LedgerBlock[] {
    this.#close();
    return this.#blocks.length === 0 ? NO_BLOCKS : [...this.#blocks];
  }

  /** Drops blocks that the store has. */
  forget(blocks: readonly LedgerBlock[]): void {
    if (blocks.length > 0) this.#blocks = this.#blocks.slice(blocks.length);
  }

  #close(): void {
    if (this.#open === null) return;
    const { bytes, count, root, details } = this.#open.finish();
    const lines = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString();
    const number = ++this.#blockCount;
    this.#blocks.push({ number, count, root, lines, details: details === "" ? null : details });
    this.#open = null;
    this.#chars = 0;
  }
}

/** Details as plain JSON: dates and class instances are converted here, before the hash is made. */
function readDetails(text: string, what: string): Json {
  const details = JSON.parse(text) as Json;
  try {
    canonicalize(details);
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    throw new PermanentError(`${what} cannot be recorded: ${error.message}`, {
      code: "BAD_DETAILS",
    });
  }
  return details;
}

/**
 * Null for an item that cannot be read or has no canonical form (it holds half a surrogate pair).
 */
function hashItem(read: () => unknown): string | null {
  try {
    return hash("sha256", canonicalize(read() as Json));
  } catch {
    return null;
  }
}

/** Why a handler may not record a state, with the most similar declared one; null when it may. */
export function refuseState(
  state: unknown,
  declared: readonly string[] | null,
): PermanentError | null {
  if (declared === null) {
    const message =
      "its pipeline keeps no ledger of items: add ledger: { item: true, states: [...] } to it";
    return new PermanentError(message, { code: "UNDECLARED" });
  }
  if (typeof state === "string" && declared.includes(state)) return null;
  const given = typeof state === "string" ? JSON.stringify(state.slice(0, 100)) : typeof state;
  const meant = typeof state === "string" ? formatDidYouMean(findSimilar(state, declared)) : "";
  const known =
    declared.length === 0
      ? `the pipeline declares none. Add states: [${given}] to its ledger.`
      : meant || `They are ${declared.join(", ")}.`;
  const message = `there is no state ${given} in the pipeline's ledger: ${known}`;
  return new PermanentError(message, { code: "UNDECLARED" });
}
