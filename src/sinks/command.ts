/**
 * Runs a command for each event or message, with the event on its standard input. There is no
 * shell, so the content of an event cannot become a command. It has a time limit, and is then
 * killed with all processes that it started.
 */
import { type ChildProcess, spawn } from "node:child_process";
import type { RecordType } from "../core/batch/batch.ts";
import { describeError, PermanentError, TransientError } from "../core/base/errors.ts";
import { makeInert } from "../core/base/inert-text.ts";
import { OptionProblems } from "../core/events/option-problems.ts";
import type { RetryPolicy } from "../core/base/retry.ts";
import type { Sink, SinkContext } from "../ports/sink.ts";
import { type Delivered, isMessage, writeJson } from "./event-json.ts";
import {
  DELIVERY_OPTIONS,
  type DeliveryOptions,
  throwIfBad,
  TIMEOUT_MS_MAX,
} from "./sink-options.ts";

export interface CommandSinkOptions extends DeliveryOptions {
  /** The program and its arguments. */
  readonly run: readonly [program: string, ...args: string[]];
  /** Time limit, after which it is killed; default 60 s. */
  readonly timeoutMs?: number;
}

const NAME = "commandSink";
const OPTIONS = [...DELIVERY_OPTIONS, "run", "timeoutMs"];
const TIMEOUT_MS = 60_000;
const RETRY: RetryPolicy = { attempts: 5, baseMs: 1_000, capMs: 60_000 };
/** How much of a failed command's standard error its message shows. */
const STDERR_CHARS_MAX = 500;
const STDERR_BYTES_MAX = 4 * STDERR_CHARS_MAX;
/** A process that the command left behind may keep its standard error open for ever. */
const STDERR_GRACE_MS = 200;

export function commandSink(options: CommandSinkOptions): Sink {
  const problems = new OptionProblems();
  const given = problems.readOptions(options, OPTIONS);
  const { run } = given;
  const isCommand =
    Array.isArray(run) &&
    run.every((word) => typeof word === "string" && !word.includes("\0")) &&
    run[0] !== undefined &&
    run[0] !== "";
  if (!isCommand) {
    problems.add('run must be a program and its arguments, for example ["notify-send", "done"]');
  }
  const timeoutMs = problems.readWhole("timeoutMs", given["timeoutMs"], {
    min: 1,
    max: TIMEOUT_MS_MAX,
    fallback: TIMEOUT_MS,
  });
  const events = problems.readEvents(given["events"]);
  const retry = problems.readRetry(given["attempts"], given["backoff"], RETRY);
  throwIfBad(problems, NAME);
  return new CommandSink([...(run as string[])], timeoutMs, events, retry);
}

class CommandSink implements Sink {
  readonly kind = "command";
  /** Only the program: arguments may contain secrets. */
  readonly target: string;
  readonly events: readonly RecordType[] | null;
  readonly retry: RetryPolicy;
  readonly #args: readonly string[];
  readonly #timeoutMs: number;

  constructor(
    [program = "", ...args]: readonly string[],
    timeoutMs: number,
    events: readonly RecordType[] | null,
    retry: RetryPolicy,
  ) {
    this.target = program;
    this.#args = args;
    this.#timeoutMs = timeoutMs;
    this.events = events;
    this.retry = retry;
  }

  async deliver(event: Delivered, context: SinkContext): Promise<void> {
    const child = spawn(this.target, this.#args, {
      // Its own process group: it can be killed as a whole, and Ctrl-C of the terminal does not
      // reach it.
      detached: process.platform !== "win32",
      stdio: ["pipe", "ignore", "pipe"],
      env: {
        ...process.env,
        ...describeEnvironment(event),
      },
    });
    // A command that does not read its input may end before it is written.
    child.stdin?.on("error", () => undefined);
    child.stdin?.end(`${writeJson(event)}\n`);
    await this.#waitFor(child, context);
  }

  #waitFor(child: ChildProcess, { clock, signal }: SinkContext): Promise<void> {
    const stderr = new TextTail(child);
    const timeoutMs = this.#timeoutMs;
    return new Promise((resolve, reject) => {
      let cancelGrace: () => void = () => undefined;
      const release = (): void => {
        cancel();
        signal.removeEventListener("abort", abandon);
      };
      const finish = (failure: Error | null): void => {
        release();
        cancelGrace();
        child.stderr?.destroy();
        if (failure === null) resolve();
        else reject(failure);
      };
      const cut = (code: string, message: string): void => {
        killGroup(child);
        finish(new TransientError(`${this.target} ${message}`, { code }));
      };
      const cancel = clock.after(timeoutMs, () =>
        cut("TIME_LIMIT", `did not end within ${timeoutMs} ms and was killed`),
      );
      const abandon = (): void => cut("STOPPED", "was killed: its delivery was stopped");
      signal.addEventListener("abort", abandon);
      child.on("error", (error) => finish(this.#describeStartFailure(error)));
      child.on("exit", (code, killedBy) => {
        // Its process id may be reused from now on.
        release();
        const judge = (): void => finish(this.#judge(code, killedBy, stderr));
        child.on("close", judge);
        cancelGrace = clock.after(STDERR_GRACE_MS, judge);
      });
      if (signal.aborted) abandon();
    });
  }

  #describeStartFailure(error: Error): Error {
    const { code } = describeError(error);
    const isMissing = code === "ENOENT" || code === "EACCES";
    if (!isMissing) return new TransientError(`${this.target} did not start (${code})`, { code });
    const why = code === "ENOENT" ? "there is no such program" : "it may not be run";
    return new PermanentError(`${this.target} cannot be run: ${why}`, { code: "COMMAND_MISSING" });
  }

  #judge(code: number | null, killedBy: string | null, stderr: TextTail): Error | null {
    if (code === 0) return null;
    const how = killedBy === null ? `exited with ${code}` : `was ended by ${killedBy}`;
    const errorText = stderr.read();
    return new TransientError(`${this.target} ${how}${errorText === "" ? "" : `: ${errorText}`}`, {
      code: "COMMAND_FAILED",
    });
  }
}

/** Facts for a script that does not read its input. */
function describeEnvironment(event: Delivered): Record<string, string> {
  const { id, batch } = event;
  return isMessage(event)
    ? { SLUICE_TOPIC: event.topic, SLUICE_BATCH: batch, SLUICE_MESSAGE_ID: id }
    : { SLUICE_EVENT: event.type, SLUICE_BATCH: batch, SLUICE_EVENT_ID: id };
}

/** The end of a process's output, whatever its length. */
class TextTail {
  #tail = Buffer.alloc(0);

  constructor({ stderr }: ChildProcess) {
    stderr?.on("data", (part: Buffer) => {
      this.#tail = Buffer.concat([this.#tail, part]).subarray(-STDERR_BYTES_MAX);
    });
    stderr?.on("error", () => undefined);
  }

  /** On one line, without characters that control a terminal. */
  read(): string {
    return makeInert(this.#tail.toString().trim().slice(-STDERR_CHARS_MAX));
  }
}

function killGroup(child: ChildProcess): void {
  const { pid } = child;
  if (pid === undefined) return;
  try {
    if (process.platform === "win32") child.kill("SIGKILL");
    else process.kill(-pid, "SIGKILL");
  } catch {
    // It has ended by itself.
  }
}
