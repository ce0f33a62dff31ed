/** The history of a world, line by line. Two runs of one seed must have the same digest. */
import { createHash } from "node:crypto";

const LINES_SHOWN = 60;

/** The subject of a line, so that a story can leave out unimportant lines. */
export type LineKind = "call" | "fault" | "run" | "node" | "act" | "record";

export interface TraceLine {
  readonly atMs: number;
  readonly kind: LineKind;
  readonly text: string;
}

export class Trace {
  readonly #lines: TraceLine[] = [];
  readonly #sum = createHash("sha256");
  #digest: string | null = null;

  /** `detail` is part of the history, but too long to read. */
  add(atMs: number, kind: LineKind, text: string, detail = ""): void {
    this.#lines.push({ atMs, kind, text });
    this.#sum.update(`${atMs} ${text} ${detail}\n`);
  }

  /** Digest of the whole history. Reading it ends the history. */
  get digest(): string {
    this.#digest ??= this.#sum.digest("hex");
    return this.#digest;
  }

  get lines(): readonly TraceLine[] {
    return this.#lines;
  }

  /** The last lines, for a failure's message; all lines if SLUICE_TRACE is set. */
  describe(): string {
    const all = process.env["SLUICE_TRACE"] !== undefined;
    const lines = all ? this.#lines : this.#lines.slice(-LINES_SHOWN);
    return lines.map(({ atMs, text }) => `${atMs} ${text}`).join("\n");
  }
}

/** A call's arguments as text. */
export function writeArguments(value: unknown): string {
  return JSON.stringify(value) ?? "nothing";
}

/** The kind of an answer, for example `kept,settled +2` or `planned`. */
export function describeAnswer(answer: unknown): string {
  if (typeof answer !== "object" || answer === null) return String(answer);
  if (Array.isArray(answer)) return `${answer.length} rows`;
  if ("kind" in answer) return String(answer.kind);
  if ("state" in answer) return String(answer.state);
  if ("leased" in answer && "reports" in answer) {
    const { reports, leased } = answer as { reports: string[]; leased: { chunk: number }[] };
    return `[${reports.join()}] +[${leased.map(({ chunk }) => chunk).join()}]`;
  }
  return JSON.stringify(answer).slice(0, 80);
}
