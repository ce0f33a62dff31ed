/**
 * Records about a batch, chained by hash: each names its predecessor's hash, so editing, dropping
 * or reordering one breaks every later one. The bytes that were hashed are the bytes that are kept.
 */
import type { LinkType } from "../batch/batch.ts";
import { canonicalize, type Json } from "../base/canonical-json.ts";

/** SHA-256 of UTF-8 text as lower-case hex; comes in from outside, as core does no I/O. */
export type Sha256 = (text: string) => string;

export interface ChainHead {
  /** The last record's number; 0 before the first. */
  readonly seq: number;
  readonly hash: string;
}

/** What the first record of a chain names as its predecessor. */
export const CHAIN_START: ChainHead = { seq: 0, hash: "0".repeat(64) };

export interface RecordFacts {
  readonly batch: string;
  readonly type: LinkType;
  /** UTC, ISO 8601 with milliseconds: text, so that no column type can round it. */
  readonly at: string;
  readonly data: { readonly [key: string]: Json | undefined };
}

export interface ChainedRecord extends RecordFacts {
  readonly seq: number;
  /** The canonical JSON that was hashed. */
  readonly body: string;
  readonly hash: string;
}

export function chainRecord(head: ChainHead, facts: RecordFacts, sha256: Sha256): ChainedRecord {
  const seq = head.seq + 1;
  const body = canonicalize({ v: 1, seq, prev: head.hash, ...facts });
  return { ...facts, seq, body, hash: sha256(body) };
}

export type ChainVerdict =
  | { readonly kind: "intact"; readonly head: ChainHead }
  | { readonly kind: "broken"; readonly seq: number; readonly why: string };

/** Checks a whole chain from its first record, or what follows one of them. */
export function verifyChain(
  records: Iterable<{ readonly body: string; readonly hash: string }>,
  sha256: Sha256,
  from: ChainHead = CHAIN_START,
): ChainVerdict {
  let head = from;
  for (const { body, hash } of records) {
    const seq = head.seq + 1;
    const broken = (why: string): ChainVerdict => ({ kind: "broken", seq, why });
    if (sha256(body) !== hash) return broken("the record does not match its hash");
    const parsed = parseBody(body);
    if (parsed === null) return broken("the record is not readable");
    if (parsed.seq !== seq) return broken(`expected number ${seq}, found ${String(parsed.seq)}`);
    if (parsed.prev !== head.hash) return broken("the record does not follow its predecessor");
    head = { seq, hash };
  }
  return { kind: "intact", head };
}

/** Whoever forges a record may write anything: that is a broken chain, not a crash of its reader. */
function parseBody(body: string): { readonly seq?: unknown; readonly prev?: unknown } | null {
  try {
    const parsed: unknown = JSON.parse(body);
    return typeof parsed === "object" ? parsed : null;
  } catch {
    return null;
  }
}
