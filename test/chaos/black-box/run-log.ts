/**
 * The lines that handlers write: one when an item starts and one when it ends, in a file of their
 * process, before anything else happens. All processes of a host share the monotonic clock, so the
 * lines of all files together are one history.
 *
 *   S <batch> <item> <attempt> <drive> <fence> <monotonic ms>
 *   E <batch> <item> <attempt> <drive> <fence> <monotonic ms> <answer>
 */
import { mkdirSync, openSync, readdirSync, readFileSync, statSync, writeSync } from "node:fs";
import { join } from "node:path";

/** The outcome that a handler is about to return. */
export const ANSWERS = ["ok", "skip", "fail"] as const;
export type Answer = (typeof ANSWERS)[number];

export interface RunFacts {
  readonly batch: string;
  readonly index: number;
  readonly attempt: number;
  readonly drive: number;
  readonly fence: number;
}

/** One call of a handler. Without an end if its process died before. */
export interface Run {
  readonly process: string;
  readonly item: number;
  readonly attempt: number;
  readonly drive: number;
  readonly fence: number;
  readonly startAt: number;
  endAt: number | null;
  answer: Answer | null;
  /** It may have begun long before its line was written: see naps.ts. */
  isCaught: boolean;
}

/** The folder of all processes' run logs, in their working folder. */
export const RUNS_FOLDER = "runs";
const ENDING = ".runs";
/** Longer than the longest line of a batch of millions. */
const LINE_BYTES = 72;

export function readMonotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

export class RunLog {
  readonly #file: number;

  constructor(folder: string, name: string) {
    mkdirSync(folder, { recursive: true });
    this.#file = openSync(join(folder, name + ENDING), "a");
  }

  start(facts: RunFacts): void {
    writeSync(this.#file, writeLine("S", facts));
  }

  end(facts: RunFacts, answer: Answer): void {
    writeSync(this.#file, writeLine("E", facts, answer));
  }
}

function writeLine(what: "S" | "E", facts: RunFacts, answer = ""): string {
  const { batch, index, attempt, drive, fence } = facts;
  const at = readMonotonicMs().toFixed(3);
  const line = `${what} ${batch} ${index} ${attempt} ${drive} ${fence} ${at} ${answer}`;
  return `${line.padEnd(LINE_BYTES - 1)}\n`;
}

/** The runs of a batch in all files of a folder, in the order of their starts. */
export function readRuns(folder: string, batch: string): Run[] {
  const runs: Run[] = [];
  for (const file of listLogs(folder)) {
    const text = readFileSync(join(folder, file), "utf8");
    for (const run of parseRuns(file.slice(0, -ENDING.length), text, batch)) runs.push(run);
  }
  return runs.toSorted((a, b) => a.startAt - b.startAt);
}

/** How many items of any batch have started or ended: all lines have the same length. */
export function countLines(folder: string): number {
  const bytes = listLogs(folder).reduce((sum, file) => sum + statSync(join(folder, file)).size, 0);
  return Math.floor(bytes / LINE_BYTES);
}

function listLogs(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => name.endsWith(ENDING));
  } catch {
    // No handler has started yet.
    return [];
  }
}

export function* parseRuns(process: string, text: string, batch: string): Generator<Run> {
  const open = new Map<number, Run>();
  const lines = text.split("\n");
  // A killed process may leave a partial last line.
  lines.pop();
  for (const line of lines) {
    const [what, id, index, attempt, drive, fence, at, answer] = line.split(" ");
    if (id !== batch) continue;
    const item = Number(index);
    if (what === "E") {
      const run = open.get(item);
      if (run === undefined) throw new Error(`${process}: an end without a start: ${line}`);
      run.endAt = Number(at);
      run.answer = answer as Answer;
      open.delete(item);
      continue;
    }
    const run: Run = {
      process,
      item,
      attempt: Number(attempt),
      drive: Number(drive),
      fence: Number(fence),
      startAt: Number(at),
      endAt: null,
      answer: null,
      isCaught: false,
    };
    open.set(item, run);
    yield run;
  }
}
