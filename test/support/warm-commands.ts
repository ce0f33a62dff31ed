/**
 * Commands in processes that have loaded the command line already. A command that needs a process of
 * its own gets one: it waits for signals, asks for the terminal, or runs a handler that may end its
 * process or leave something behind.
 */
import { type ChildProcess, fork } from "node:child_process";
import { hash, randomUUID } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { WarmCommand, WarmEnding } from "./warm-process.ts";

export interface WarmResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const PROCESS = fileURLToPath(new URL("./warm-process.ts", import.meta.url));
/** More commands at once than this start processes of their own. */
const PROCESSES_MAX = 2;

/** Commands that read and steer what is in a store. */
const PLAIN = new Set([
  "cancel",
  "dead",
  "lanes",
  "ledger",
  "limits",
  "list",
  "pause",
  "prune",
  "redrive",
  "results",
  "resume",
  "status",
  "topics",
  "why",
]);
/** Commands that load a user's module. */
const LOADING = new Set(["run", "submit"]);
/** They stay, or start processes. */
const OWN_FLAGS = /^--(watch|config|processes|wait)\b/;
/** A module that does this, or that every command loads. */
const OWN_MODULES = /\bprocess\.|globalThis|setInterval|while \(true\)|for \(;;\)/;
const MODULE = /\.[cm]?[jt]s$/;

/** The modules of a folder; null when they need a process of their own. */
function readModules(folder: string): string | null {
  const names = readdirSync(folder).filter((name) => MODULE.test(name));
  if (names.some((name) => name.startsWith("sluice.config."))) return null;
  const texts = names.map((name) => `${name}\n${readFileSync(join(folder, name), "utf8")}`);
  return texts.some((text) => OWN_MODULES.test(text)) ? null : hash("sha256", texts.join("\n"));
}

export class WarmCommands {
  readonly #command: string;
  readonly #idle: WarmMember[] = [];
  #members = 0;

  constructor(command: string) {
    this.#command = command;
  }

  /** Null when the command needs a process of its own. */
  run(folder: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<WarmResult> | null {
    const [name = ""] = args;
    // Help loads no module and starts nothing, whatever the command does.
    const isHelp = args.at(-1) === "--help";
    const named = LOADING.has(name) || args.some((arg) => arg.startsWith("--pipeline-file"));
    const loads = named && !isHelp;
    if (!loads && !isHelp && !PLAIN.has(name)) return null;
    if (args.some((arg) => OWN_FLAGS.test(arg))) return null;
    const modules = readModules(folder);
    if (modules === null) return null;
    // A submit runs no handler, so it leaves a module as it was loaded.
    const suits = (member: WarmMember): boolean =>
      !loads || member.isNewTo(folder) || (name === "submit" && member.knows(folder, modules));
    const at = this.#idle.findLastIndex(suits);
    const member = at === -1 ? this.#start() : this.#idle.splice(at, 1)[0];
    if (member === undefined) return null;
    if (loads) member.remember(folder, modules);
    return this.#runOn(member, { cwd: folder, args, env, mark: randomUUID() });
  }

  async #runOn(member: WarmMember, command: WarmCommand): Promise<WarmResult> {
    try {
      const { isSpent, ...result } = await member.run(command);
      if (isSpent) this.#end(member);
      else this.#idle.push(member);
      return result;
    } catch (error) {
      this.#end(member);
      throw error;
    }
  }

  #start(): WarmMember | undefined {
    if (this.#members >= PROCESSES_MAX) return undefined;
    this.#members++;
    return new WarmMember(this.#command);
  }

  #end(member: WarmMember): void {
    this.#members--;
    member.end();
  }
}

class WarmMember {
  readonly #child: ChildProcess;
  readonly #output = { stdout: "", stderr: "" };
  /** Folders whose modules it has loaded, with what they were then. */
  readonly #folders = new Map<string, string>();
  #look: () => void = () => undefined;

  constructor(command: string) {
    this.#child = fork(PROCESS, [command, command.replace(/main\.js$/, "program.js")], {
      execArgv: [],
      env: { NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"] },
      stdio: ["ignore", "pipe", "pipe", "ipc"],
    });
    for (const name of ["stdout", "stderr"] as const) {
      this.#child[name]?.setEncoding("utf8").on("data", (text: string) => {
        this.#output[name] += text;
        this.#look();
      });
    }
  }

  isNewTo(folder: string): boolean {
    return !this.#folders.has(folder);
  }

  knows(folder: string, modules: string): boolean {
    return this.#folders.get(folder) === modules;
  }

  remember(folder: string, modules: string): void {
    this.#folders.set(folder, modules);
  }

  run(command: WarmCommand): Promise<WarmResult & WarmEnding> {
    const { mark } = command;
    const output = this.#output;
    [output.stdout, output.stderr] = ["", ""];
    return new Promise((resolve, reject) => {
      let ending: WarmEnding | null = null;
      this.#look = () => {
        const { stdout, stderr } = output;
        if (ending === null || !stdout.endsWith(mark) || !stderr.endsWith(mark)) return;
        this.#child.removeAllListeners("exit");
        const cut = (text: string): string => text.slice(0, -mark.length);
        resolve({ ...ending, stdout: cut(stdout), stderr: cut(stderr) });
      };
      this.#child.once("message", (word: WarmEnding) => {
        ending = word;
        this.#look();
      });
      this.#child.on("exit", (code, signal) => {
        const what = `${command.args.join(" ")} ended its process with ${code ?? signal}`;
        reject(new Error(`${what}\n${output.stderr}`));
      });
      this.#child.send(command);
    });
  }

  end(): void {
    this.#child.removeAllListeners("exit");
    this.#child.kill("SIGKILL");
  }
}
