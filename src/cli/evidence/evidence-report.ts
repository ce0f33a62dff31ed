/** The report of an evidence pack: one HTML file that needs no network, runs no code and prints well. */
import type { BatchEntry } from "../../ledger/verify/timeline.ts";
import { describeVerdict, isConclusive, type Verdict } from "../../ledger/verify/verdict.ts";
import { formatInstant } from "../../ports/clock.ts";
import type { FullBatchView } from "../../views/batch.ts";
import type { DeadLetterView } from "../../views/dead-letter.ts";
import { formatCount } from "../output/format-number.ts";
import { makeInert } from "../output/inert-text.ts";
import { describeRecord } from "../render/record-words.ts";

export type EvidenceFiles = readonly (readonly [name: string, what: string])[];

export const ENDING_PROOF = "proofs/ending.json";

const EVIDENCE_FILES: EvidenceFiles = [
  ["report.html", "this evidence for people: open it in a browser"],
  ["plan.json", "the batch: its submission, steps and counts"],
  ["outcomes.csv", "the outcome of each item of each step"],
  ["failures.jsonl", "items that gave up, each with its cause"],
  ["attempts.jsonl", "attempts that failed and were retried, where a ledger of items is kept"],
  ["acts.jsonl", "what operators did, who and why"],
  ["ledger.jsonl", "the ledger: all records, chained, with their signatures"],
  ["signed-heads.jsonl", "what was signed, and by which key"],
  ["keys.jsonl", "how each key was introduced"],
  [ENDING_PROOF, "a proof of the ending alone"],
  ["verdict.json", "the result of the verification when this was packed"],
];

/** The files of the archive. */
export function listFiles(hasProof: boolean): EvidenceFiles {
  return EVIDENCE_FILES.filter(([name]) => hasProof || name !== ENDING_PROOF);
}

export interface ReportFacts {
  readonly view: FullBatchView;
  /** Without records about items; for a broken ledger only the records before the break. */
  readonly records: readonly BatchEntry[];
  readonly acts: readonly BatchEntry[];
  /** The first dead letters. */
  readonly letters: readonly DeadLetterView[];
  readonly verdict: Verdict;
  /** Wall-clock milliseconds. */
  readonly takenAt: number;
  readonly files: EvidenceFiles;
}

const STYLE = `
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; }
h1 { font-size: 1.6rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
th, td { text-align: left; padding: 0.25rem 0.75rem 0.25rem 0; border-bottom: 1px solid #ddd; vertical-align: top; overflow-wrap: anywhere; }
.short { white-space: nowrap; }
th { border-bottom: 2px solid #888; } .n { text-align: right; }
.verdict { padding: 0.75rem 1rem; border-left: 0.4rem solid; margin: 1rem 0; }
.good { border-color: #1a7f37; background: #eefaf0; } .partly { border-color: #9a6700; background: #fff8e5; } .bad { border-color: #b42318; background: #fdf0ee; }
code { font-size: 0.85rem; }
@media print { body { margin: 0; max-width: none; font-size: 11px; } h2 { break-after: avoid; } tr { break-inside: avoid; } thead { display: table-header-group; } }
`;

export function renderReport(facts: ReportFacts): string {
  const { view, letters, takenAt, verdict } = facts;
  const { failed } = view;
  const isBroken = verdict.kind === "broken";
  const rest = isBroken
    ? "<p>The ledger is broken here. <code>ledger.jsonl</code> has what follows, as it was found: nothing proves it.</p>"
    : "";
  const more =
    failed > letters.length
      ? `<p>The first ${formatCount(letters.length)} of ${formatCount(failed)}; <code>failures.jsonl</code> has all.</p>`
      : "";
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Evidence of batch ${escape(view.batch)}</title>
<style>${STYLE}</style>
</head>
<body>
<h1>Batch ${escape(view.batch)}: ${escape(view.state)}</h1>
<p>Packed ${formatInstant(takenAt)}.</p>
${renderVerdict(verdict)}
<h2>The batch</h2>
${renderFacts(view)}
<h2>Steps</h2>
${renderSteps(view)}
<h2>What operators did</h2>
${renderRecords(facts.acts, isBroken ? "Nothing, up to where the ledger is broken." : "None.")}
<h2>Failures</h2>
${renderDeadLetters(letters)}${more}
<h2>What happened</h2>
${renderRecords(facts.records, "Nothing is recorded.")}${rest}
<h2>How to check this</h2>
<p>This page is a view; the evidence is <code>ledger.jsonl</code> beside it. With the public key of its signer:</p>
<pre><code>npx sluice ledger verify ledger.jsonl --trust key.pem --conclusive</code></pre>
${renderTable(["file", "what it is"], facts.files)}
</body>
</html>
`;
}

function renderVerdict(verdict: Verdict): string {
  // The reader decides which key to trust.
  const isSigned = verdict.kind === "intact" && isConclusive({ ...verdict, isTrusted: true });
  const mood = verdict.kind === "broken" ? "bad" : isSigned ? "good" : "partly";
  const lines = describeVerdict(verdict).map((line) => escape(line));
  return `<div class="verdict ${mood}">${lines.join("<br>\n")}</div>`;
}

function renderFacts(view: FullBatchView): string {
  const shown = Object.entries(view).filter(
    ([, value]) => typeof value === "string" || typeof value === "number",
  );
  return renderTable(
    ["", ""],
    shown.map(([name, value]) => [name, String(value)]),
  );
}

function renderSteps({ steps }: FullBatchView): string {
  const names = ["planned", "succeeded", "skipped", "failed", "cancelled", "pending"] as const;
  return renderTable(
    ["step", ...names],
    steps.map((step) => [step.name, ...names.map((name) => formatCount(step[name]))]),
    1,
  );
}

function renderDeadLetters(letters: readonly DeadLetterView[]): string {
  if (letters.length === 0) return "<p>None.</p>";
  return renderTable(
    ["step", "item", "key", "cause", "attempts", "message"],
    letters.map(({ step, item, key, code, attempts, message, discarded }) => [
      step,
      String(item),
      key ?? "",
      discarded === null ? code : `${code}, accepted by ${discarded.by}`,
      String(attempts),
      message,
    ]),
  );
}

function renderRecords(records: readonly BatchEntry[], otherwise: string): string {
  if (records.length === 0) return `<p>${otherwise}</p>`;
  return renderTable(
    ["record", "time", "what", "details"],
    records.map((entry) => [entry.record, entry.at, entry.type, describeRecord(entry)]),
  );
}

/** Short texts such as times and types are not wrapped. */
const SHORT_CHARS_MAX = 28;

/** Columns from `numbersFrom` on are numbers. */
function renderTable(
  titles: readonly string[],
  rows: readonly (readonly string[])[],
  numbersFrom = titles.length,
): string {
  const cell = (tag: string, text: string, at: number): string => {
    const named = at >= numbersFrom ? "n" : text.length <= SHORT_CHARS_MAX ? "short" : "";
    return `<${tag}${named === "" ? "" : ` class="${named}"`}>${escape(text)}</${tag}>`;
  };
  const row = (tag: string, cells: readonly string[]): string =>
    `<tr>${cells.map((text, at) => cell(tag, text, at)).join("")}</tr>`;
  const head = titles.every((title) => title === "") ? "" : `<thead>${row("th", titles)}</thead>\n`;
  return `<table>\n${head}<tbody>\n${rows.map((cells) => row("td", cells)).join("\n")}\n</tbody>\n</table>`;
}

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** Control characters are spelled out: a browser also obeys direction marks. */
function escape(text: string): string {
  return makeInert(text).replaceAll(/[&<>"']/g, (character) => ESCAPES[character] ?? "");
}
