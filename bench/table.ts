/**
 * The result of a run as data (`--json`) and as two Markdown tables that are also readable in a
 * terminal.
 */
import type { MachineFacts } from "./machine.ts";
import { computeSpread, type Measured, type Spread } from "./measure.ts";
import type { MedianOf, Question, Target } from "./question.ts";

export type Verdict = "met" | "missed" | "not judged" | "not measured";

export interface AnsweredFigure {
  readonly question: string;
  readonly subject: string;
  readonly unit: string;
  readonly spread: Spread;
}

export interface AnsweredTarget {
  readonly question: string;
  readonly what: string;
  readonly unit: string;
  readonly bound: Target["bound"];
  readonly value: number | null;
  readonly verdict: Verdict;
}

export interface Failure {
  readonly question: string;
  readonly subject: string;
  readonly reason: string;
}

export interface Answers {
  readonly figures: readonly AnsweredFigure[];
  readonly targets: readonly AnsweredTarget[];
  readonly failures: readonly Failure[];
}

export interface RunReport extends Answers {
  readonly takenAt: string;
  readonly runs: number;
  readonly quick: boolean;
  readonly machine: MachineFacts;
  readonly questions: readonly { readonly key: string; readonly title: string }[];
}

/** A quick run is not judged: its sizes are too small to mean anything. */
export function answerQuestion(
  question: Question,
  measured: readonly Measured[],
  isJudged: boolean,
): Answers {
  const byName = new Map(measured.map((each) => [each.name, each]));
  const medianOf: MedianOf = (subject, figure) =>
    computeSpread(byName.get(subject), figure)?.median;
  return {
    figures: measured.flatMap((each) =>
      question.shown.flatMap(({ name, unit }) => {
        const spread = computeSpread(each, name);
        return spread === undefined
          ? []
          : [{ question: question.key, subject: each.name, unit, spread }];
      }),
    ),
    targets: question.targets.map(({ what, unit, bound, compute }) => {
      const value = compute(medianOf) ?? null;
      const verdict = decideVerdict(value, bound, isJudged);
      return { question: question.key, what, unit, bound, value, verdict };
    }),
    failures: measured.flatMap((each) =>
      each.kind === "failed"
        ? [{ question: question.key, subject: each.name, reason: each.reason }]
        : [],
    ),
  };
}

function decideVerdict(value: number | null, bound: Target["bound"], isJudged: boolean): Verdict {
  if (value === null) return "not measured";
  if (bound === null || !isJudged) return "not judged";
  const isMet = bound.kind === "at least" ? value >= bound.limit : value < bound.limit;
  return isMet ? "met" : "missed";
}

export function formatReport(report: RunReport): string {
  const parts = [
    formatHeading(report),
    ...report.questions.map(({ key, title }) => `- **${key}**: ${title}`),
    "",
    formatFigures(report),
    "",
    formatTargets(report.targets),
  ];
  return `${parts.join("\n")}\n`;
}

function formatHeading(report: RunReport): string {
  const { machine } = report;
  const size = report.quick ? "quick run, small sizes, nothing judged" : "full size";
  const lines = [
    `${report.takenAt}, ${size}, medians of ${report.runs} interleaved ${report.runs === 1 ? "run" : "runs"}.`,
    `${machine.cores} cores (${machine.processor}), ${machine.memoryGb} GB, ${machine.system}, load ${machine.load} at the start.`,
    `Node ${machine.node}, ${machine.server ?? `SQLite ${machine.sqlite}`}, ${machine.peers}.`,
    `Databases on ${machine.fileSystem}; a synced append of 4 KiB takes ${machine.syncMs} ms (median).`,
  ];
  if (machine.warning !== null) lines.push(`**${machine.warning}**`);
  return `${lines.join("\n")}\n`;
}

function formatFigures({ figures, failures }: Answers): string {
  const rows = [
    ...figures.map(({ question, subject, unit, spread }) => ({
      question,
      cells: [
        question,
        subject,
        formatNumber(spread.median),
        formatNumber(spread.min),
        formatNumber(spread.max),
        unit,
      ],
    })),
    ...failures.map(({ question, subject, reason }) => ({
      question,
      cells: [question, subject, "not measured", "", "", reason.replaceAll("|", "/")],
    })),
  ].toSorted((a, b) => a.question.localeCompare(b.question));
  return formatTable(
    ["", "subject", "median", "min", "max", "unit, or reason"],
    rows.map(({ cells }) => cells),
    new Set([2, 3, 4]),
  );
}

function formatTargets(targets: readonly AnsweredTarget[]): string {
  return formatTable(
    ["", "compared", "value", "target", "verdict"],
    targets.map(({ question, what, unit, bound, value, verdict }) => [
      question,
      what,
      value === null ? "-" : formatQuantity(value, unit),
      bound === null
        ? "-"
        : `${bound.kind === "at least" ? ">=" : "<"} ${formatQuantity(bound.limit, unit)}`,
      verdict,
    ]),
    new Set([2, 3]),
  );
}

function formatQuantity(value: number, unit: string): string {
  return unit === "x" ? `${formatNumber(value)}x` : `${formatNumber(value)} ${unit}`;
}

/** A shared machine justifies three digits at most; large numbers keep their thousands. */
function formatNumber(value: number): string {
  return value.toLocaleString("en-US", { maximumSignificantDigits: 3 });
}

/** The last column is not padded: it may hold a long reason. */
function formatTable(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  rightAligned: ReadonlySet<number>,
): string {
  const widths = head.map((title, column) =>
    column === head.length - 1
      ? title.length
      : Math.max(3, title.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  const formatRow = (cells: readonly string[]) => {
    const padded = widths.map((width, column) => {
      const cell = cells[column] ?? "";
      return rightAligned.has(column) ? cell.padStart(width) : cell.padEnd(width);
    });
    return `| ${padded.join(" | ")} |`;
  };
  const rule = widths.map((width, column) =>
    rightAligned.has(column) ? `${"-".repeat(width - 1)}:` : "-".repeat(width),
  );
  return [formatRow(head), formatRow(rule), ...rows.map(formatRow)].join("\n");
}
