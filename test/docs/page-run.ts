/**
 * Runs the blocks of one page from top to bottom in a separate folder, as a reader does.
 * CONTRIBUTING.md says how each kind of block runs.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { type Block, type Page, ROOT } from "./markdown.ts";
import { compareOutput, type KnownIds, putRealIds } from "./shown-output.ts";

/** What is shown and not run: output, and data that no command reads. */
const SHOWN_ONLY = ["text", "json", "sql"];
const DATA = ["jsonl", "csv"];
/** The folder of a page, as the page shows it in messages. */
const SHOWN_FOLDER = "/data";
/** Real time, on a machine that also does other work. */
const COMMAND_MS_MAX = 120_000;

export class PageRun {
  readonly #page: Pick<Page, "path" | "blocks">;
  readonly #folder: string;
  readonly #bin: string;
  readonly #ids: KnownIds = new Map();
  readonly #env: Readonly<Record<string, string>>;

  /** `name` is the page's own folder within the reader's. */
  constructor(
    page: Pick<Page, "path" | "blocks">,
    readersFolder: string,
    name: string,
    env: Readonly<Record<string, string>> = {},
  ) {
    this.#page = page;
    this.#env = env;
    this.#folder = join(readersFolder, "run", name);
    this.#bin = join(readersFolder, "bin");
    mkdirSync(this.#folder, { recursive: true });
    cpSync(join(ROOT, "examples"), join(this.#folder, "examples"), { recursive: true });
  }

  async run(): Promise<void> {
    for (const block of this.#page.blocks) {
      try {
        await this.#runBlock(block);
      } catch (error) {
        (error as Error).message = `${this.#page.path}:${block.line}: ${(error as Error).message}`;
        throw error;
      }
    }
  }

  async #runBlock(block: Block): Promise<void> {
    const { language, file } = block;
    if (SHOWN_ONLY.includes(language)) return;
    if (language === "sh") return checkRepositoryCommands(block);
    if (language === "console") return this.#runConsole(block);
    if (DATA.includes(language)) {
      if (file === null) throw new Error("a data block needs a file name after its language");
      return this.#putFile(file, block.text);
    }
    if (language === "ts") {
      const name = nameScript(block);
      this.#putFile(name, block.text);
      if (!this.#isUsedElsewhere(block, name)) await this.#runScript(name);
      return;
    }
    throw new Error(
      `a block in ${language || "no language"} cannot be run; only ${SHOWN_ONLY.join(", ")} are shown without running`,
    );
  }

  /** The block must be equal to a file that a command has already made. */
  #putFile(name: string, text: string): void {
    const path = join(this.#folder, name);
    mkdirSync(dirname(path), { recursive: true });
    if (!existsSync(path)) writeFileSync(path, text);
    else if (readFileSync(path, "utf8") !== text) {
      throw new Error(`${name} already exists and differs from the page`);
    }
  }

  /** Whether a command of the page names the file, or another block imports it. */
  #isUsedElsewhere(own: Block, name: string): boolean {
    return this.#page.blocks.some(
      (block) =>
        block !== own &&
        ((block.language === "ts" && block.text.includes(`"./${name}"`)) ||
          (block.language === "console" &&
            splitConsole(block.text).some(({ command }) => command.includes(name)))),
    );
  }

  async #runScript(name: string): Promise<void> {
    const { code, output } = await this.#spawn(process.execPath, [name]);
    if (code !== 0) throw new Error(`node ${name} exited with ${code}:\n${output}`);
  }

  async #runConsole({ text }: Block): Promise<void> {
    const steps = splitConsole(text);
    let exit = 0;
    for (const [at, { command, shown }] of steps.entries()) {
      // Each command has its own shell; only `$?` is passed on.
      const real = putRealIds(command, this.#ids);
      const script = `exec 2>&1\n(exit ${exit})\n${real}\nexit $?`;
      const { code, output } = await this.#spawn("bash", ["-c", script]);
      exit = code;
      const printed = this.#clean(output);
      const wrong = compareOutput(shown, printed, this.#ids);
      if (wrong !== null) {
        throw new Error(`$ ${command}\n  ${wrong}\n  in all:\n${printed.join("\n")}`);
      }
      const isTold = steps[at + 1]?.command === "echo $?";
      if (exit !== 0 && !isTold) {
        throw new Error(
          `$ ${command}\n  exited with ${exit}; show it with $ echo $?\n${printed.join("\n")}`,
        );
      }
    }
  }

  #clean(output: string): string[] {
    return output
      .replaceAll(this.#folder, SHOWN_FOLDER)
      .replaceAll(/^bash: line \d+: +\d+ Killed.*$/gm, "Killed")
      .split("\n");
  }

  #spawn(command: string, args: readonly string[]): Promise<{ code: number; output: string }> {
    const { NO_COLOR: _n, FORCE_COLOR: _f, ...env } = process.env;
    const path = [this.#bin, dirname(process.execPath), env["PATH"] ?? ""].join(delimiter);
    const child = spawn(command, args, {
      cwd: this.#folder,
      // Node 22 warns about SQLite in every program; the pages show what Node 24 prints. Pages run
      // side by side, so their workers may not share one port.
      env: {
        SLUICE_HEALTH_PORT: "off",
        ...env,
        ...this.#env,
        PATH: path,
        NODE_NO_WARNINGS: "1",
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    return collect(child);
  }
}

function collect(child: ChildProcess): Promise<{ code: number; output: string }> {
  let output = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => (output += text));
  child.stderr?.setEncoding("utf8").on("data", (text: string) => (output += text));
  const tooLong = setTimeout(() => child.kill("SIGKILL"), COMMAND_MS_MAX);
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, signal) => {
      clearTimeout(tooLong);
      if (signal === null) resolve({ code: code ?? 1, output });
      else reject(new Error(`was ended by ${signal}:\n${output}`));
    });
  });
}

interface ConsoleStep {
  readonly command: string;
  readonly shown: readonly string[];
}

/** `$ command`, then its output; a command that ends in `\` continues on the next line. */
function splitConsole(text: string): ConsoleStep[] {
  const steps: { command: string; shown: string[] }[] = [];
  for (const line of text.trimEnd().split("\n")) {
    const last = steps.at(-1);
    if (line.startsWith("$ ")) steps.push({ command: line.slice(2), shown: [] });
    else if (last === undefined) throw new Error("a console block begins with a `$ ` command");
    else if (last.command.endsWith("\\") && last.shown.length === 0) last.command += `\n${line}`;
    else last.shown.push(line);
  }
  return steps;
}

/** The name of a script, or the name by which npm calls it. */
export function nameScript({ file, line }: Block): string {
  return file ?? `line-${line}.ts`;
}

/** Commands about the repository would run this test again, so they are checked but not run. */
function checkRepositoryCommands({ text }: Block): void {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
    scripts: Record<string, string>;
  };
  const commands = text
    .split(/\n|&&/)
    .map((line) => line.replace(/\s#.*$/, "").trim())
    .filter((line) => line !== "");
  for (const command of commands) {
    const script = /^npm (?:run )?([\w:]+)(?: -- .+)?$/.exec(command)?.[1];
    const isKnown = command === "npm ci" || (script !== undefined && scripts[script] !== undefined);
    if (!isKnown) throw new Error(`${command} is no command of this repository`);
  }
}
