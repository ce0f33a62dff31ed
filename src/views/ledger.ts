/** Ledgers: what was written, the result of a verification, what was erased. */
import { computeFingerprint, type SigningKey } from "../ledger/format/signing-key.ts";
import type { BatchSnapshot } from "../ports/store/conductor-store.ts";
import { type IntactVerdict, isConclusive, type Verdict } from "../ledger/verify/verdict.ts";

export interface IntactView extends Omit<IntactVerdict, "isTrusted"> {
  /** Every signature is by a trusted key. */
  readonly trusted: boolean;
  readonly conclusive: boolean;
}

export interface BrokenView {
  readonly kind: "broken";
  readonly line: number;
  readonly record: string | null;
  readonly why: string;
  readonly conclusive: false;
}

export function viewVerdict(verdict: Verdict): IntactView | BrokenView {
  if (verdict.kind === "broken") {
    const { kind, line, record, why } = verdict;
    return { kind, line, record, why, conclusive: false };
  }
  const { isTrusted, ...facts } = verdict;
  return { ...facts, trusted: isTrusted, conclusive: isConclusive(verdict) };
}

export interface ExportView {
  readonly batch: string;
  /** The file that was written. */
  readonly output: string;
  readonly bytes: number;
}

export function viewExport({ id }: BatchSnapshot, output: string, bytes: number): ExportView {
  return { batch: id, output, bytes };
}

export interface PackView {
  readonly batch: string;
  readonly output: string;
  readonly verdict: IntactView | BrokenView;
}

export function viewPack({ id }: BatchSnapshot, output: string, verdict: Verdict): PackView {
  return { batch: id, output, verdict: viewVerdict(verdict) };
}

export interface ErasedView {
  readonly batch: string;
  /** Records whose details were erased. */
  readonly erased: number;
}

export function viewErased({ id }: BatchSnapshot, erased: number): ErasedView {
  return { batch: id, erased };
}

export interface KeyView {
  /** Its id. */
  readonly key: string;
  readonly fingerprint: string;
  readonly pem: string;
}

export function viewKey({ id, publicKey }: SigningKey): KeyView {
  const pem = String(publicKey.export({ type: "spki", format: "pem" }));
  return { key: id, fingerprint: computeFingerprint(publicKey), pem };
}
