/** What happened in a world, line by line. Two runs of one seed must have the same digest. */
import { createHash, hash } from "node:crypto";

const LINES_SHOWN = 60;
const DIGEST_CHARS = 8;

export class Trace {
  readonly #lines: string[] = [];

  add(line: string): void {
    this.#lines.push(line);
  }

  get digest(): string {
    const sum = createHash("sha256");
    for (const line of this.#lines) sum.update(line).update("\n");
    return sum.digest("hex");
  }

  get length(): number {
    return this.#lines.length;
  }

  /** The end of it, for a failure's message; all of it with SLUICE_TRACE set. */
  describe(): string {
    if (process.env["SLUICE_TRACE"] !== undefined) return this.#lines.join("\n");
    return this.#lines.slice(-LINES_SHOWN).join("\n");
  }
}

/** A few characters that stand for a call's arguments. */
export function digestValue(value: unknown): string {
  return hash("sha256", JSON.stringify(value, replaceBytes) ?? "nothing").slice(0, DIGEST_CHARS);
}

function replaceBytes(_key: string, value: unknown): unknown {
  return value instanceof Uint8Array ? Buffer.from(value).toString("hex") : value;
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
  return JSON.stringify(answer, replaceBytes).slice(0, 80);
}
