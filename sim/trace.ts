/** What happened in a world, line by line. Two runs of one seed must have the same digest. */
import { createHash } from "node:crypto";

const LINES_SHOWN = 60;

/** What a line is about, so that a story can be told without what nobody asked for. */
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

  /** `detail` is part of the history, but too long to be read. */
  add(atMs: number, kind: LineKind, text: string, detail = ""): void {
    this.#lines.push({ atMs, kind, text });
    this.#sum.update(`${atMs} ${text} ${detail}\n`);
  }

  /** Of the whole history, which ends with the first look at it. */
  get digest(): string {
    this.#digest ??= this.#sum.digest("hex");
    return this.#digest;
  }

  get lines(): readonly TraceLine[] {
    return this.#lines;
  }

  /** The end of it, for a failure's message; all of it with SLUICE_TRACE set. */
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

/** What kind of answer it was, for example `kept,settled +2` or `planned`. */
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
