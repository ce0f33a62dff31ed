/**
 * Calls the built command in a separate folder, as a shell does. The folder has the package in its
 * node_modules, so that pipelines import it by its name.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { WarmCommands } from "./warm-commands.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
export const COMMAND = join(ROOT, "dist/cli/main.js");
const WARM = new WarmCommands(COMMAND);

export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface BatchLine {
  readonly batch: string;
  readonly pipeline: string;
  readonly lane: string;
  readonly state: string;
  readonly planned: number;
  readonly succeeded: number;
  readonly skipped: number;
  readonly failed: number;
  readonly cancelled: number;
  readonly pending: number;
  readonly chunks: number;
  readonly elapsedMs: number;
  readonly reason?: { readonly code: string; readonly message: string };
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly node?: string;
}

export interface ProgramOptions {
  /** In its own process group: signals also reach the programs that it has started. */
  readonly grouped?: boolean;
}

/** A running command. */
export class Running {
  readonly ended: Promise<Ending>;
  readonly #child: ChildProcess;
  readonly #isGrouped: boolean;
  readonly #listeners = new Set<() => void>();
  #stdout = "";
  #stderr = "";
  #isOver = false;

  constructor(child: ChildProcess, { grouped = false }: ProgramOptions = {}) {
    this.#child = child;
    this.#isGrouped = grouped;
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      this.#stdout += text;
      this.#tell();
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#stderr += text;
      this.#tell();
    });
    this.ended = new Promise((resolve, reject) => {
      child.on("error", reject);
      child.on("close", (code, signal) => {
        this.#isOver = true;
        this.#tell();
        resolve({ code, signal, stdout: this.#stdout, stderr: this.#stderr });
      });
    });
  }

  get pid(): number {
    return this.#child.pid ?? -1;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** Its standard error until now. */
  get stderr(): string {
    return this.#stderr;
  }

  /** Resolves when the pattern is in the output; fails when the command ends without it. */
  waitFor(pattern: RegExp): Promise<void> {
    return new Promise((resolve, reject) => {
      const look = (): void => {
        if (pattern.test(this.#stdout + this.#stderr)) resolve();
        else if (this.#isOver) reject(new Error(`never written: ${pattern}\n${this.#stderr}`));
        else return;
        this.#listeners.delete(look);
      };
      this.#listeners.add(look);
      look();
    });
  }

  signal(name: NodeJS.Signals): void {
    const { pid, exitCode, signalCode } = this.#child;
    if (!this.#isGrouped) this.#child.kill(name);
    else if (pid !== undefined && exitCode === null && signalCode === null) {
      process.kill(-pid, name);
    }
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}

export class Workspace {
  readonly path = mkdtempSync(join(tmpdir(), "sluice-cli-"));
  readonly #started = new Set<Running>();

  constructor() {
    mkdirSync(this.at("node_modules"));
    symlinkSync(ROOT, this.at("node_modules/sluice"));
  }

  at(name: string): string {
    return join(this.path, name);
  }

  write(name: string, content: string | Uint8Array): string {
    const path = this.at(name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
    return name;
  }

  read(name: string): string {
    return readFileSync(this.at(name), "utf8");
  }

  /** A pipeline over JSON lines; `options` is the text of further options. */
  writePipeline(options = "process: (item) => item", file = "pipeline.ts"): string {
    const text = `import { definePipeline, jsonl, PermanentError, FatalError, skipped } from "sluice";
import { appendFileSync, existsSync, writeSync } from "node:fs";
void [PermanentError, FatalError, skipped, appendFileSync, existsSync, writeSync];
export default definePipeline({
  name: "letters",
  source: ({ input }: { input: string }) => jsonl<any>(input),
  key: (item: any) => item.id,
  ${options}
});
`;
    return this.write(file, text);
  }

  /** `count` good lines: {"id":"i0","n":0}, ... */
  writeItems(count: number, file = "items.jsonl"): string {
    const lines = Array.from({ length: count }, (_, n) => `{"id":"i${n}","n":${n}}\n`);
    return this.write(file, lines.join(""));
  }

  start(args: readonly string[], { env = {}, node = process.execPath }: RunOptions = {}): Running {
    return this.startProgram(node, [COMMAND, ...args], env);
  }

  startProgram(
    program: string,
    args: readonly string[],
    env: Readonly<Record<string, string>> = {},
    options: ProgramOptions = {},
  ): Running {
    const child = spawn(program, args, {
      cwd: this.path,
      env: { ...cleanEnvironment(), ...env },
      stdio: ["ignore", "pipe", "pipe"],
      detached: options.grouped === true,
    });
    const running = new Running(child, options);
    this.#started.add(running);
    running.ended.finally(() => this.#started.delete(running)).catch(() => undefined);
    return running;
  }

  /** In a process that has loaded the command already, where that makes no difference. */
  async run(...args: readonly string[]): Promise<Ending> {
    const warm = WARM.run(this.path, args, cleanEnvironment());
    return warm === null ? this.runAlone(...args) : { ...(await warm), signal: null };
  }

  /** In a process of its own, for what may end it. */
  runAlone(...args: readonly string[]): Promise<Ending> {
    return this.start(args).ended;
  }

  /** Runs with --json and reads the last line of the output. */
  async runJson<View = BatchLine>(
    ...args: readonly string[]
  ): Promise<{ readonly code: number | null; readonly view: View; readonly stderr: string }> {
    const { code, stdout, stderr } = await this.run(...args, "--json");
    const last = stdout.trimEnd().split("\n").at(-1);
    if (last === undefined || last === "") throw new Error(`nothing on stdout\n${stderr}`);
    return { code, view: JSON.parse(last) as View, stderr };
  }

  /** Also ends what a failed test has left behind. */
  remove(): void {
    for (const running of this.#started) running.signal("SIGKILL");
    rmSync(this.path, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Without the variables that the machine has set for itself. */
function cleanEnvironment(): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(
    ([name]) => !/^(SLUICE_|NO_COLOR$|FORCE_COLOR$|NODE_OPTIONS$|VITEST)/.test(name),
  );
  // Many workers run at once here, and they must not share a port.
  return { ...Object.fromEntries(kept), SLUICE_HEALTH_PORT: "off" };
}

/** The JSON objects of lines. */
export function readLines<Line = unknown>(text: string): Line[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Line);
}
