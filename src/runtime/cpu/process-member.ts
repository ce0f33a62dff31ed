/**
 * A process of a pool. It has its worker's environment. What it prints goes to the worker's
 * standard error, because the command's results go to standard output.
 */
import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { deserialize } from "node:v8";
import { type Clock, sleep } from "../../ports/clock.ts";
import type { CpuSettings } from "./cpu-settings.ts";
import {
  type CpuAnswer,
  type CpuRequest,
  END_MS_MAX,
  type Member,
  MemberDeath,
  START_MS_MAX,
} from "./member.ts";
import { nextTo } from "./next-to.ts";
import type { FromMember, ToMember } from "./process-messages.ts";
import { refuseData } from "./run-module.ts";

const MIB = 1_048_576;
/** Flags of the worker for its own program, debugger or memory, which a member must not get. */
const OWN_FLAGS = /^--(inspect|debug|max-old-space-size|cpu-prof|heap-prof|watch|test|title)/;
const PROGRAM_FLAGS = new Set(["-e", "--eval", "-p", "--print", "-pe", "-c", "--check"]);

/** How long a process may live after its channel closed. */
const SILENCE_MS_MAX = 500;

interface Asked {
  readonly id: number;
  readonly resolve: (answer: Uint8Array) => void;
  readonly reject: (death: Error) => void;
}

export class ProcessMember implements Member {
  readonly pid: number | null;
  readonly gone: Promise<void>;
  readonly #child: ChildProcess;
  readonly #clock: Clock;
  readonly #ready = Promise.withResolvers<void>();
  #asked: Asked | null = null;
  #lastId = 0;
  /** Why this pool killed it; null when it did not. */
  #killedAs: string | null = null;
  #isGone = false;

  private constructor(child: ChildProcess, clock: Clock) {
    this.#child = child;
    this.#clock = clock;
    this.pid = child.pid ?? null;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.gone = promise;
    const leave = (how: string): void => {
      this.#isGone = true;
      const death = new MemberDeath(this.#killedAs ?? how);
      this.#asked?.reject(death);
      this.#ready.reject(death);
      resolve();
    };
    this.#ready.promise.catch(() => undefined);
    child.on("message", (message) => this.#receive(message as Partial<FromMember> | null));
    child.on("disconnect", () => this.#noteSilence());
    child.once("exit", (code, signal) => {
      // Kill also what its tasks left running.
      killGroup(child);
      leave(describeExit(code, signal));
    });
    // A process that did not start emits no exit; one that cannot be reached is useless.
    child.on("error", (error) => {
      if (child.pid === undefined) leave(`could not be started: ${error.message}`);
      else this.kill(`could not be reached: ${error.message}`);
    });
  }

  static async start(settings: CpuSettings, clock: Clock): Promise<ProcessMember> {
    const program = fileURLToPath(nextTo(import.meta.url, "process-main"));
    const child = fork(program, [String(process.pid)], {
      serialization: "advanced",
      execArgv: listFlags(settings),
      stdio: ["ignore", 2, 2, "ipc"],
      // Its own process group, so that a kill reaches what a task has started.
      detached: process.platform !== "win32",
    });
    const member = new ProcessMember(child, clock);
    const cancel = clock.after(START_MS_MAX, () => member.kill("took too long to start"));
    try {
      await member.#ready.promise;
    } finally {
      cancel();
    }
    return member;
  }

  run(request: CpuRequest): Promise<CpuAnswer> {
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
    if (this.#isGone) return Promise.reject(new MemberDeath("had already exited"));
    const id = ++this.#lastId;
    this.#asked = { id, resolve, reject };
    const asking: ToMember = { id, request };
    try {
      this.#child.send(asking, (error) => {
        if (error !== null) this.kill(`could not be reached: ${error.message}`);
      });
    } catch (error) {
      // The request was not sent, so the process can run another task.
      this.#asked = null;
      reject(refuseData("data", error));
    }
    return promise.then((answer) => deserialize(answer) as CpuAnswer);
  }

  kill(how: string): void {
    if (this.#isGone) return;
    this.#killedAs ??= how;
    killGroup(this.#child);
  }

  async end(): Promise<void> {
    if (this.#isGone) return;
    if (this.#child.connected) this.#child.disconnect();
    const ended = new AbortController();
    void this.gone.then(() => ended.abort());
    await sleep(this.#clock, END_MS_MAX, ended.signal);
    if (!this.#isGone) this.kill("did not exit");
    await this.gone;
  }

  /** A dying process closes its channel first. If a task closed it, no answer can arrive. */
  #noteSilence(): void {
    if (this.#asked === null) return;
    const cancel = this.#clock.after(SILENCE_MS_MAX, () =>
      this.kill("closed the channel to its worker"),
    );
    void this.gone.then(cancel);
  }

  /** Checks every message: a task may find a way to send anything on the channel. */
  #receive(message: Partial<FromMember> | null): void {
    if (message?.kind === "ready") return this.#ready.resolve();
    const asked = this.#asked;
    if (message?.kind !== "answer" || asked === null || asked.id !== message.id) return;
    // It is being killed: after an answer, the pool would give it the next task.
    if (this.#killedAs !== null || !(message.answer instanceof Uint8Array)) return;
    this.#asked = null;
    asked.resolve(message.answer);
  }
}

/** Kills the process and everything that is still in its process group. */
function killGroup(child: ChildProcess): void {
  try {
    if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
  } catch {
    // This platform has no process groups, or the group is empty.
    child.kill("SIGKILL");
  }
}

function describeExit(code: number | null, signal: string | null): string {
  return signal === null ? `exited with code ${code ?? "?"}` : `was ended by ${signal}`;
}

/** The worker's own flags, so that a task is loaded as the pipeline was. */
function listFlags({ memoryBytesMax }: CpuSettings): string[] {
  const own = process.execArgv;
  const kept = own.some((flag) => PROGRAM_FLAGS.has(flag))
    ? []
    : own.filter((flag) => !OWN_FLAGS.test(flag));
  return [
    ...kept,
    "--disable-warning=ExperimentalWarning",
    `--max-old-space-size=${Math.floor(memoryBytesMax / MIB)}`,
  ];
}
