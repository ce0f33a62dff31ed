/**
 * Keeps several processes of the same command running: one that dies is restarted, later with each
 * death in a row; signals are passed on; all stop when one of them cannot continue.
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { DEFAULT_RESTART, decideRestart } from "../../core/fleet/restart.ts";
import { sleep } from "../../ports/clock.ts";
import { systemRandom } from "../../runtime/system/system-random.ts";
import type { Cli } from "../output/cli.ts";
import { EXIT } from "../output/exit-codes.ts";
import { formatDuration } from "../output/format-duration.ts";
import { countNoun } from "../output/format-number.ts";
import { onParentGone } from "./parent-watch.ts";
import type { ProgressDisplay } from "../render/progress-display.ts";
import { RelayedOutput } from "./relayed-output.ts";
import { StopRequest } from "./stop-request.ts";
import { PROCESS_VARIABLE, readNotice } from "./supervised.ts";

export interface SupervisorOptions {
  readonly processes: number;
  /** A process that has finished its work is not restarted. */
  readonly untilIdle: boolean;
}

interface End {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** Endings that are remembered so that each is printed once. */
const ENDINGS_MAX = 10_000;
/** How long to wait for the last output of a process that has ended. */
const OUTPUT_MS = 1_000;
/** They would end the same way again: a fatal error, or wrong usage. */
const HOPELESS: readonly number[] = [EXIT.fatal, EXIT.usage];

export class Supervisor {
  readonly #cli: Cli;
  readonly #display: ProgressDisplay;
  readonly #options: SupervisorOptions;
  readonly #children = new Set<ChildProcess>();
  readonly #out: RelayedOutput;
  readonly #err: RelayedOutput;
  readonly #stopping = new AbortController();
  readonly #endings = new Set<number>();
  #deaths = 0;
  #exitCode: number = EXIT.ok;

  constructor(cli: Cli, display: ProgressDisplay, options: SupervisorOptions) {
    this.#cli = cli;
    this.#display = display;
    this.#options = options;
    this.#out = new RelayedOutput(cli.out);
    this.#err = new RelayedOutput(cli.err);
  }

  /** Returns the exit code, once all processes have ended. */
  async run(): Promise<number> {
    const { processes } = this.#options;
    const stop = new StopRequest(this.#cli.clock, (code) => this.#killAll(code));
    stop.signal.addEventListener("abort", () => {
      const signal = stop.received ?? "SIGTERM";
      this.#display.note(
        `${signal}: stopping ${countNoun(processes, "process", "processes")}; a second signal kills them`,
      );
      this.#stopAll(signal);
    });
    onParentGone(this.#cli.env, this.#cli.clock, () => stop.request("SIGTERM"));
    this.#display.note(`supervising ${countNoun(processes, "process", "processes")}`);
    const numbers = Array.from({ length: processes }, (_, at) => at + 1);
    await Promise.all(numbers.map((number) => this.#keep(number)));
    this.#display.note(
      `stopped: ${countNoun(this.#deaths, "death")} of ${countNoun(processes, "process", "processes")}`,
    );
    stop.release();
    return this.#exitCode;
  }

  /** One process after the other in the same place. */
  async #keep(number: number): Promise<void> {
    const { clock } = this.#cli;
    let deaths = 0;
    while (!this.#stopping.signal.aborted) {
      const startedAt = clock.monotonicMs();
      const end = await this.#start(number);
      const decision = decideRestart(
        DEFAULT_RESTART,
        { code: end.code, livedMs: clock.monotonicMs() - startedAt },
        {
          isStopping: this.#stopping.signal.aborted,
          mayFinish: this.#options.untilIdle,
          hopeless: HOPELESS,
          deaths,
        },
        systemRandom.next(),
      );
      if (decision.kind === "done") return;
      if (decision.kind === "give_up") return this.#giveUp(number, decision.code);
      deaths = decision.deaths;
      this.#logRestart(number, end, decision.delayMs);
      await sleep(clock, decision.delayMs, this.#stopping.signal);
    }
  }

  /** Resolves when it has ended and all its output has been read. */
  async #start(number: number): Promise<End> {
    const { env, argv, clock } = this.#cli;
    const colours = this.#hasColours ? { FORCE_COLOR: "1" } : {};
    const child = fork(process.argv[1] ?? "", [...argv], {
      env: { ...env, ...colours, [PROCESS_VARIABLE]: String(number) },
      stdio: ["ignore", "pipe", "pipe", "ipc"],
    });
    this.#children.add(child);
    const heard = this.#listen(child, number);
    const end = await awaitEnd(child);
    this.#children.delete(child);
    // A process that it has started may keep its output open for ever.
    await Promise.race([heard, sleep(clock, OUTPUT_MS)]);
    return end;
  }

  async #listen(child: ChildProcess, number: number): Promise<void> {
    const { stdout, stderr } = child;
    const prefix = this.#cli.err.colours.dim(`[${number}] `);
    child.on("message", (message) => this.#hear(message));
    await Promise.allSettled([
      stdout === null ? null : this.#out.relay(stdout, ""),
      stderr === null ? null : this.#err.relay(stderr, prefix),
      once(child, "disconnect"),
    ]);
  }

  get #hasColours(): boolean {
    const { out, err } = this.#cli;
    return out.colours.isColorSupported && err.colours.isColorSupported;
  }

  #hear(message: unknown): void {
    const notice = readNotice(message);
    if (notice === null || this.#endings.has(notice.position)) return;
    this.#endings.add(notice.position);
    const [oldest = -1] = this.#endings;
    if (this.#endings.size > ENDINGS_MAX) this.#endings.delete(oldest);
    this.#cli.out.line(notice.line);
  }

  #logRestart(number: number, { code, signal }: End, delayMs: number): void {
    const again = `restarting it in ${formatDuration(delayMs)}`;
    if (code === 0) {
      const message = `process ${number} exited; ${again}`;
      this.#display.log({ level: "info", event: "process.left", message });
      return;
    }
    this.#deaths++;
    const how = signal === null ? `exited with ${code}` : `was killed by ${signal}`;
    const message = `process ${number} ${how}, ${countNoun(this.#deaths, "death")} so far; ${again}`;
    this.#display.log({ level: "warn", event: "process.died", message });
  }

  #giveUp(number: number, code: number): void {
    if (this.#exitCode === EXIT.ok) this.#exitCode = code;
    if (this.#stopping.signal.aborted) return;
    const message = `process ${number} cannot continue (exit ${code}): the others are stopped`;
    this.#display.log({ level: "error", event: "process.gave_up", message });
    this.#stopAll("SIGTERM");
  }

  #stopAll(signal: NodeJS.Signals): void {
    this.#stopping.abort();
    for (const child of this.#children) child.kill(signal);
  }

  #killAll(code: number): void {
    for (const child of this.#children) child.kill("SIGKILL");
    this.#cli.exitNow(code);
  }
}

function awaitEnd(child: ChildProcess): Promise<End> {
  return new Promise((resolve) => {
    child.on("exit", (code, signal) => resolve({ code, signal }));
    // It could not be started: that counts as a death.
    child.on("error", () => {
      if (child.pid === undefined) resolve({ code: EXIT.failed, signal: null });
    });
  });
}
