/**
 * `node bench/main.ts <set>`: measures one set of questions; README.md says what each set asks.
 * Figures go to standard output, progress to standard error. The exit code is 1 when something
 * could not be measured. It says nothing about speed: a slow machine is not a failure.
 */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { compareBuilds, findMissingBuild } from "./against.ts";
import { FULL_CPU_SIZES, listCpuQuestions, QUICK_CPU_SIZES } from "./cpu.ts";
import { askAboutHealth, FULL_HEALTH_SECONDS, QUICK_HEALTH_SECONDS } from "./health.ts";
import { FULL_SIZES, listHeartQuestions, QUICK_SIZES } from "./heart.ts";
import { writeItemsFile } from "./items-file.ts";
import { FULL_LEDGER_SIZES, listLedgerQuestions, QUICK_LEDGER_SIZES } from "./ledger.ts";
import { FULL_LIFE_SIZES, listLifeQuestions, QUICK_LIFE_SIZES } from "./life.ts";
import { FULL_LIMIT_SIZES, listLimitQuestions, QUICK_LIMIT_SIZES } from "./limits.ts";
import { readMachineFacts } from "./machine.ts";
import { measureInTurns } from "./measure.ts";
import { FULL_PACKET_SIZES, listPacketQuestions, QUICK_PACKET_SIZES } from "./packets.ts";
import { installPeers } from "./peers.ts";
import { FULL_POSTGRES_SIZES, listPostgresQuestions, QUICK_POSTGRES_SIZES } from "./postgres.ts";
import { type BenchServer, startBenchServer } from "./postgres-server.ts";
import type { Question } from "./question.ts";
import { openSavedResults } from "./saved-results.ts";
import { type Answers, answerQuestion, formatReport, type RunReport } from "./table.ts";

interface QuestionSet {
  readonly hasPeers: boolean;
  /** Of each subject, unless stated otherwise. */
  readonly runs: number;
  /** Null: every subject has its own file. */
  readonly startServer: (() => Promise<BenchServer>) | null;
  /** `pathOf` returns a JSONL file with that many items. */
  readonly list: (quick: boolean, pathOf: (items: number) => string) => readonly Question[];
}

const SETS: { readonly [name: string]: QuestionSet } = {
  heart: {
    hasPeers: true,
    runs: 3,
    startServer: null,
    list: (quick, pathOf) => listHeartQuestions(quick ? QUICK_SIZES : FULL_SIZES, pathOf),
  },
  life: {
    hasPeers: false,
    runs: 3,
    startServer: null,
    list: (quick) => listLifeQuestions(quick ? QUICK_LIFE_SIZES : FULL_LIFE_SIZES),
  },
  limits: {
    hasPeers: false,
    runs: 3,
    startServer: null,
    list: (quick, pathOf) =>
      listLimitQuestions(quick ? QUICK_LIMIT_SIZES : FULL_LIMIT_SIZES, pathOf),
  },
  cpu: {
    hasPeers: false,
    runs: 5,
    startServer: null,
    list: (quick) => [
      ...listCpuQuestions(quick ? QUICK_CPU_SIZES : FULL_CPU_SIZES),
      askAboutHealth(quick ? QUICK_HEALTH_SECONDS : FULL_HEALTH_SECONDS),
    ],
  },
  ledger: {
    hasPeers: false,
    runs: 5,
    startServer: null,
    list: (quick, pathOf) =>
      listLedgerQuestions(quick ? QUICK_LEDGER_SIZES : FULL_LEDGER_SIZES, pathOf),
  },
  postgres: {
    hasPeers: true,
    runs: 5,
    startServer: startBenchServer,
    list: (quick, pathOf) =>
      listPostgresQuestions(quick ? QUICK_POSTGRES_SIZES : FULL_POSTGRES_SIZES, pathOf),
  },
  packets: {
    hasPeers: false,
    runs: 5,
    startServer: null,
    list: (quick) => listPacketQuestions(quick ? QUICK_PACKET_SIZES : FULL_PACKET_SIZES),
  },
};

interface Request {
  readonly set: string;
  readonly runs: number;
  readonly quick: boolean;
  readonly json: boolean;
  readonly save: boolean;
  /** Empty: all questions. */
  readonly only: readonly string[];
  /** Another checkout to compare with, instead of peers; null: none. */
  readonly against: string | null;
}

const USAGE = `Usage: node bench/main.ts heart|life|limits|cpu|ledger|postgres|packets [options]

  --runs N      interleaved runs of each subject (default 3; cpu, ledger, postgres and packets 5; 1 with --quick)
  --only a,c    only these questions
  --against DIR compare with the build of another checkout, without peers
  --quick       small sizes: does everything run? Nothing is judged
  --json        one JSON document instead of tables
  --save        write the tables into bench/README.md (full runs only)
`;
const RUNS_MAX = 100;

function parseOptions(args: readonly string[]) {
  return parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      runs: { type: "string" },
      only: { type: "string" },
      against: { type: "string" },
      quick: { type: "boolean", default: false },
      json: { type: "boolean", default: false },
      save: { type: "boolean", default: false },
    },
  });
}

/** The request, or all its mistakes. */
function readRequest(args: readonly string[]): Request | { readonly problems: readonly string[] } {
  let parsed: ReturnType<typeof parseOptions>;
  try {
    parsed = parseOptions(args);
  } catch (error) {
    return { problems: [error instanceof Error ? error.message : String(error)] };
  }
  const { values, positionals } = parsed;
  const only = values.only?.split(",").map((key) => key.trim()) ?? [];
  const [set = ""] = positionals;
  const runs = Number(values.runs ?? (values.quick ? 1 : (SETS[set]?.runs ?? 1)));
  const known = SETS[set]?.list(true, () => "").map(({ key }) => key) ?? only;
  const problems: string[] = [];
  if (positionals.length !== 1 || SETS[set] === undefined) {
    problems.push(`name what to measure: ${Object.keys(SETS).join(" or ")}`);
  }
  if (!Number.isInteger(runs) || runs < 1 || runs > RUNS_MAX) {
    problems.push(`--runs must be a whole number from 1 to ${RUNS_MAX}`);
  }
  for (const key of only.filter((each) => !known.includes(each))) {
    problems.push(`--only: there is no question "${key}"; the questions are ${known.join(", ")}`);
  }
  if (values.save && (values.quick || only.length > 0 || values.against !== undefined)) {
    problems.push("--save needs a full run: leave out --quick, --only and --against");
  }
  const { against = null } = values;
  const missing = against === null ? [] : findMissingBuild(against);
  if (missing.length > 0) {
    problems.push(`--against: ${against} has no ${missing.join(", ")}: run npm ci there`);
  }
  return problems.length > 0
    ? { problems }
    : { set, runs, only, against, quick: values.quick, json: values.json, save: values.save };
}

function onProgress(text: string): void {
  process.stderr.write(`${text}\n`);
}

async function measureSet(
  set: QuestionSet,
  request: Request,
  folder: string,
  signal: AbortSignal,
): Promise<RunReport> {
  if (set.hasPeers && request.against === null) installPeers(onProgress);
  const server = (await set.startServer?.()) ?? null;
  try {
    return await measureOn(server, set, request, folder, signal);
  } finally {
    await server?.stop();
  }
}

async function measureOn(
  server: BenchServer | null,
  { list }: QuestionSet,
  request: Request,
  folder: string,
  signal: AbortSignal,
): Promise<RunReport> {
  const takenAt = `${new Date().toISOString().slice(0, 16).replace("T", " ")} UTC`;
  const machine = readMachineFacts(folder, server?.description ?? null);
  const questions = list(request.quick, (items) => join(folder, `items-${items}.jsonl`));
  const { only, against } = request;
  const asked = questions
    .filter(({ key }) => only.length === 0 || only.includes(key))
    .map((question) => (against === null ? question : compareBuilds(question, against)))
    .filter(({ subjects }) => subjects.length > 0);
  const runsFolder = join(folder, "runs");
  mkdirSync(runsFolder);
  const written = new Set<string>();
  const answers: Answers[] = [];
  for (const question of asked) {
    for (const { options } of question.subjects) {
      const { itemsPath, items } = options;
      if (typeof itemsPath !== "string" || written.has(itemsPath)) continue;
      writeItemsFile(itemsPath, Number(items));
      written.add(itemsPath);
    }
    const measured = await measureInTurns(question.subjects, {
      folder: runsFolder,
      runs: request.runs * (request.quick ? 1 : (question.repeats ?? 1)),
      signal,
      server,
      onProgress: (text) => onProgress(`${question.key}: ${text}`),
    });
    answers.push(answerQuestion(question, measured, !request.quick));
  }
  return {
    takenAt,
    runs: request.runs,
    quick: request.quick,
    machine,
    questions: asked.map(({ key, title }) => ({ key, title })),
    figures: answers.flatMap(({ figures }) => figures),
    targets: answers.flatMap(({ targets }) => targets),
    failures: answers.flatMap(({ failures }) => failures),
  };
}

async function main(): Promise<void> {
  const request = readRequest(process.argv.slice(2));
  const set = "problems" in request ? undefined : SETS[request.set];
  if ("problems" in request || set === undefined) {
    const problems = "problems" in request ? request.problems : [];
    process.stderr.write(`${problems.join("\n")}\n\n${USAGE}`);
    process.exitCode = 2;
    return;
  }
  const save = request.save ? openSavedResults(request.set) : null;
  const stop = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const) process.once(name, () => stop.abort());
  const folder = mkdtempSync(join(tmpdir(), "sluice-bench-"));
  try {
    const report = await measureSet(set, request, folder, stop.signal);
    process.stdout.write(
      request.json ? `${JSON.stringify(report, null, 2)}\n` : formatReport(report),
    );
    save?.(formatReport(report));
    if (report.failures.length > 0) process.exitCode = 1;
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    process.stderr.write("stopped\n");
    process.exitCode = 130;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

await main();
