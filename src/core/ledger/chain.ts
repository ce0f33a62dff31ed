/**
 * Records about a batch, chained by hash. Each record contains its predecessor's hash, so editing,
 * dropping or reordering one breaks all later ones. The bytes that were hashed are the bytes that
 * are stored.
 */
import type { LinkType } from "../batch/batch.ts";
import { canonicalize, type Json } from "../base/canonical-json.ts";

/** SHA-256 of UTF-8 text as lower-case hex; passed in, because core does no I/O. */
export type Sha256 = (text: string) => string;

export interface ChainHead {
  /** The last record's number; 0 before the first. */
  readonly seq: number;
  readonly hash: string;
}

/** The predecessor of a chain's first record. */
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

/** Checks a whole chain from its first record, or the part after a given record. */
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

/** A forged record may contain anything: that is a broken chain and must not crash the reader. */
function parseBody(body: string): { readonly seq?: unknown; readonly prev?: unknown } | null {
  try {
    const parsed: unknown = JSON.parse(body);
    return typeof parsed === "object" ? parsed : null;
  } catch {
    return null;
  }
}
