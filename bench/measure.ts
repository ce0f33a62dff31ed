/**
 * Runs subjects, each in its own fresh process on a fresh folder, in turns (A B A B ...), so that a
 * temporary disturbance of the machine affects them alike. Compare only figures of one run of this
 * harness.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Figures, SubjectPlace, SubjectReply } from "./subject-process.ts";

export interface Subject {
  readonly name: string;
  /** Prints its reply as one JSON line: see subject-process.ts. */
  readonly script: URL;
  readonly options: Readonly<Record<string, string | number>>;
}

export interface Spread {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

export type Measured =
  | { readonly kind: "measured"; readonly name: string; readonly runs: readonly Figures[] }
  | { readonly kind: "failed"; readonly name: string; readonly reason: string };

export interface RunContext {
  /** Each run gets its own folder in it. */
  readonly folder: string;
  readonly runs: number;
  readonly signal: AbortSignal;
  readonly onProgress: (text: string) => void;
  /** The server that all subjects use; null if each has its own file. */
  readonly server: SharedServer | null;
}

/** A database server, which gives every run its own database. */
export interface SharedServer {
  openDatabase(): Promise<RunDatabase>;
}

export interface RunDatabase {
  readonly address: string;
  drop(): Promise<void>;
}

const RUN_MS_MAX = 30 * 60_000;
const OUTPUT_CHARACTERS_MAX = 1_000_000;
const REASON_CHARACTERS_MAX = 200;
const repository = fileURLToPath(new URL("..", import.meta.url));

/** A subject that fails once is not run again: its reason replaces its figures. */
export async function measureInTurns(
  subjects: readonly Subject[],
  context: RunContext,
): Promise<readonly Measured[]> {
  const figures = subjects.map((): Figures[] => []);
  const reasons = new Map<number, string>();
  for (let run = 1; run <= context.runs; run++) {
    for (const [index, subject] of subjects.entries()) {
      if (reasons.has(index)) continue;
      context.onProgress(`${subject.name}, run ${run} of ${context.runs}`);
      const reply = await runOnce(subject, context);
      if (reply.kind === "measured") figures[index]?.push(reply.figures);
      else reasons.set(index, reply.reason);
    }
  }
  return subjects.map(({ name }, index) => {
    const reason = reasons.get(index);
    return reason === undefined
      ? { kind: "measured", name, runs: figures[index] ?? [] }
      : { kind: "failed", name, reason };
  });
}

async function runOnce(subject: Subject, context: RunContext): Promise<SubjectReply> {
  const folder = mkdtempSync(join(context.folder, "run-"));
  try {
    if (context.server === null) return await runChild(subject, { folder }, context.signal);
    const database = await context.server.openDatabase();
    try {
      return await runChild(subject, { folder, server: database.address }, context.signal);
    } finally {
      await database.drop();
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function runChild(
  subject: Subject,
  place: SubjectPlace,
  signal: AbortSignal,
): Promise<SubjectReply> {
  const child = spawn(
    process.execPath,
    [
      "--disable-warning=ExperimentalWarning",
      fileURLToPath(subject.script),
      JSON.stringify({ ...subject.options, ...place }),
    ],
    { stdio: ["ignore", "pipe", "pipe"], signal, timeout: RUN_MS_MAX, killSignal: "SIGKILL" },
  );
  let output = "";
  let errors = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output = (output + text).slice(-OUTPUT_CHARACTERS_MAX);
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    errors = (errors + text).slice(-OUTPUT_CHARACTERS_MAX);
  });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, killedBy) => {
      resolve(readReply(output, errors, killedBy ?? `exit code ${code}`));
    });
  });
}

/** The reply is the last line; a script that could not be loaded has printed none. */
function readReply(output: string, errors: string, ending: string): SubjectReply {
  const line = output.trimEnd().split("\n").at(-1) ?? "";
  if (line.startsWith('{"kind":')) {
    const reply = JSON.parse(line) as SubjectReply;
    return reply.kind === "measured" ? reply : { ...reply, reason: tidyReason(reply.reason) };
  }
  const cause = errors.split("\n").find((text) => /^(\w*Error)\b/.test(text));
  return { kind: "failed", reason: tidyReason(`${cause ?? "it printed no reply"} (${ending})`) };
}

/** One line that can be published: without paths of this machine. */
function tidyReason(reason: string): string {
  const [firstLine = ""] = reason.split("\n");
  return firstLine
    .replaceAll(repository, "")
    .replaceAll(tmpdir(), "(temporary folder)")
    .slice(0, REASON_CHARACTERS_MAX);
}

/** The spread of one figure over the runs; undefined if it was not measured. */
export function computeSpread(measured: Measured | undefined, figure: string): Spread | undefined {
  if (measured === undefined || measured.kind === "failed") return undefined;
  const values = measured.runs
    .map((figures) => figures[figure])
    .filter((value) => value !== undefined)
    .toSorted((a, b) => a - b);
  const [min] = values;
  const max = values.at(-1);
  if (min === undefined || max === undefined) return undefined;
  return { median: computeMedian(values), min, max };
}

/** Of sorted values, at least one. */
function computeMedian(sorted: readonly number[]): number {
  const middle = sorted.length >> 1;
  const upper = sorted[middle] as number;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] as number) + upper) / 2;
}
