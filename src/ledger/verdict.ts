/** What a verification found, and the same in words for people. */

export interface IntactVerdict {
  readonly kind: "intact";
  readonly batch: string;
  /** Of the batch's chain. */
  readonly records: number;
  readonly items: number;
  readonly checkpoints: number;
  /** The number of the last record that a checkpoint covers; 0 without any. */
  readonly signedTo: number;
  /** Whose signatures were found, by key id, in the order of their first use. */
  readonly signers: readonly string[];
  /** Whether every one of them is trusted, by name or by a chain of statements. */
  readonly isTrusted: boolean;
  /** Anchors from outside that speak of this batch; all of them fit. */
  readonly anchors: number;
  /** How the batch ended; null while it has not. */
  readonly ended: string | null;
  /** Records of items whose details are there, and match; and those whose details are not. */
  readonly details: { readonly present: number; readonly erased: number };
}

export interface BrokenVerdict {
  readonly kind: "broken";
  /** Of the export, from 1. */
  readonly line: number;
  /** The record: `<seq>`, or `<seq>/<index>` for one of an item; null for anything else. */
  readonly record: string | null;
  readonly why: string;
}

export type Verdict = IntactVerdict | BrokenVerdict;

/** Whether nothing is left to doubt: signed by a trusted key to its last record, which ends it. */
export function isConclusive(verdict: Verdict): boolean {
  return (
    verdict.kind === "intact" &&
    verdict.isTrusted &&
    verdict.signedTo === verdict.records &&
    verdict.ended !== null
  );
}

const count = (value: number, what: string): string =>
  `${value.toLocaleString("en-US")} ${what}${value === 1 ? "" : "s"}`;

/** One sentence a line, the verdict first. */
export function describeVerdict(verdict: Verdict): string[] {
  if (verdict.kind === "broken") {
    const record = verdict.record === null ? "" : `, record ${verdict.record}`;
    return [`broken at line ${verdict.line}${record}: ${verdict.why}`];
  }
  const { batch, records, items, checkpoints, signedTo, signers, ended } = verdict;
  const lines = [
    signedTo === records
      ? `intact: batch ${batch}, ${count(records, "record")}, ${count(items, "item record")}`
      : `intact, but signed only up to record ${signedTo}: batch ${batch}, ${count(records, "record")}, ${count(items, "item record")}`,
    `${count(checkpoints, "checkpoint")}, signed by ${signers.length === 0 ? "nobody" : signers.join(", ")}`,
  ];
  if (signers.length > 0 && !verdict.isTrusted) {
    lines.push("no key was named as trusted: anybody could have signed it");
  }
  if (verdict.anchors > 0)
    lines.push(`${count(verdict.anchors, "anchor")} from outside, all found`);
  const { present, erased } = verdict.details;
  if (present + erased > 0)
    lines.push(`details of ${present} records match, of ${erased} are erased`);
  lines.push(ended === null ? "the batch has not ended in it" : `the batch ended: ${ended}`);
  return lines;
}
