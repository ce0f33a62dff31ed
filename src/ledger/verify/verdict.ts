/** The result of a verification, and its description for people. */
import type { Unnamed } from "../../core/base/unnamed.ts";

export type IntactVerdict = Unnamed<{
  readonly kind: "intact";
  readonly batch: string;
  /** Records of the batch's chain. */
  readonly records: number;
  readonly items: number;
  readonly signedHeads: number;
  /** The number of the last record that a signed head covers; 0 without any. */
  readonly signedTo: number;
  /** The ids of the keys whose signatures were found, in the order of their first use. */
  readonly signers: readonly string[];
  /** Whether all of them are trusted, by name or by a chain of statements. */
  readonly isTrusted: boolean;
  /** External anchors of this batch; all of them match. */
  readonly anchors: number;
  /** External anchors of other batches. */
  readonly otherAnchors: number;
  /** How the batch ended; null while it has not. */
  readonly ended: string | null;
  /**
   * Records of items with details: present and matching; erased; or missing without a record of
   * erasing.
   */
  readonly details: { readonly present: number; readonly erased: number; readonly missing: number };
}>;

export type BrokenVerdict = Unnamed<{
  readonly kind: "broken";
  /** Of the export, from 1. */
  readonly line: number;
  /** The record: `<seq>`, or `<seq>/<index>` for one of an item; null for anything else. */
  readonly record: string | null;
  readonly why: string;
}>;

export type Verdict = IntactVerdict | BrokenVerdict;

/** Whether a trusted key has signed all of it: unsigned records could come from anyone. */
export function isSignedToItsEnd(verdict: Verdict): boolean {
  return verdict.kind === "intact" && verdict.isTrusted && verdict.signedTo === verdict.records;
}

/** Whether no doubt is left: signed to its end, the batch has ended, and nothing is missing. */
export function isConclusive(verdict: Verdict): boolean {
  return (
    verdict.kind === "intact" &&
    isSignedToItsEnd(verdict) &&
    verdict.ended !== null &&
    verdict.details.missing === 0
  );
}

const count = (value: number, what: string): string =>
  `${value.toLocaleString("en-US")} ${what}${value === 1 ? "" : "s"}`;

/** A forged name must not look like other text. */
function nameBatch(batch: string): string {
  return /^[\w.:-]{1,128}$/.test(batch) ? batch : JSON.stringify(batch);
}

/** One sentence a line, the verdict first. */
export function describeVerdict(verdict: Verdict): string[] {
  if (verdict.kind === "broken") {
    const record = verdict.record === null ? "" : `, record ${verdict.record}`;
    return [`broken at line ${verdict.line}${record}: ${verdict.why}`];
  }
  const { records, items, signedHeads, signedTo, signers, ended } = verdict;
  const what = `batch ${nameBatch(verdict.batch)}, ${count(records, "record")}, ${count(items, "item record")}`;
  const lines = [
    signedTo === records
      ? `intact: ${what}`
      : `intact, but signed only up to record ${signedTo}; anyone could have written what follows: ${what}`,
    `${count(signedHeads, "signed head")}, signed by ${signers.length === 0 ? "no key" : signers.join(", ")}`,
  ];
  if (signers.length > 0 && !verdict.isTrusted) {
    lines.push("no key was named as trusted: anybody could have signed it");
  }
  const { anchors, otherAnchors } = verdict;
  if (anchors > 0) lines.push(`${count(anchors, "anchor")} from outside, all found`);
  else if (otherAnchors > 0) {
    lines.push(`none of the ${count(otherAnchors, "anchor")} from outside is of this batch`);
  }
  const { present, erased, missing } = verdict.details;
  if (present + erased + missing > 0) {
    const lost = missing === 0 ? "" : `, of ${missing} are missing without an erasure`;
    lines.push(`details of ${present} records match, of ${erased} are erased${lost}`);
  }
  lines.push(
    ended === null ? "the export is from before the batch's end" : `the batch ended: ${ended}`,
  );
  return lines;
}
