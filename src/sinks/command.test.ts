/** Commands as sinks, with real processes. */
import { mkdtempSync, readFileSync, rmSync, existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { BatchEvent } from "../ports/store/batch-event.ts";
import type { Clock } from "../ports/clock.ts";
import { commandSink, type CommandSinkOptions } from "./command.ts";

const EVENT: BatchEvent = {
  id: "b-1/6",
  batch: "b-1",
  seq: 6,
  type: "batch.ended",
  at: "2026-01-01T00:00:00.000Z",
  data: { state: "succeeded", code: "$(touch pwned); `x`" },
};

/** Timers that fire only when the test says so. */
class HeldClock implements Clock {
  readonly timers = new Map<number, () => void>();
  wallMs = (): number => 0;
  monotonicMs = (): number => 0;
  turn = async (): Promise<void> => undefined;
  after = (delayMs: number, callback: () => void): (() => void) => {
    this.timers.set(delayMs, callback);
    return () => void this.timers.delete(delayMs);
  };
}

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sluice-command-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const clock = new HeldClock();
const node = (script: string, ...args: string[]): CommandSinkOptions["run"] => [
  process.execPath,
  "-e",
  script,
  ...args,
];

function deliver(
  options: CommandSinkOptions,
  signal: AbortSignal = new AbortController().signal,
): Promise<void> {
  return commandSink(options).deliver(EVENT, { clock, signal });
}

test("a command gets the event on its input and in its environment, and its arguments unchanged", async () => {
  const out = join(folder, "out.json");
  const script = `
    let text = "";
    process.stdin.on("data", (part) => (text += part));
    process.stdin.on("end", () => {
      const { SLUICE_EVENT, SLUICE_BATCH, SLUICE_EVENT_ID } = process.env;
      const [path, arg] = process.argv.slice(1);
      const seen = { event: JSON.parse(text), arg, SLUICE_EVENT, SLUICE_BATCH, SLUICE_EVENT_ID };
      require("node:fs").writeFileSync(path, JSON.stringify(seen));
    });`;
  await deliver({ run: node(script, out, "$HOME; *") });
  expect(JSON.parse(readFileSync(out, "utf8"))).toEqual({
    event: EVENT,
    arg: "$HOME; *",
    SLUICE_EVENT: "batch.ended",
    SLUICE_BATCH: "b-1",
    SLUICE_EVENT_ID: "b-1/6",
  });
});

test("a command that does not read its input does not fail", async () => {
  await deliver({ run: node("process.exit(0)") });
});

test("a command that fails is transient, with its error output as inert text", async () => {
  const script = String.raw`process.stderr.write("x".repeat(9_000) + "\u001b[31mno paper\u0007\n", () => process.exit(7))`;
  const failed = deliver({ run: node(script) });
  await expect(failed).rejects.toMatchObject({
    errorClass: "transient",
    code: "COMMAND_FAILED",
    message: expect.stringMatching(/ exited with 7: x+\\x1b\[31mno paper\\x07$/) as string,
  });
  const { message } = (await failed.catch((error: unknown) => error)) as Error;
  expect(message.length).toBeLessThan(process.execPath.length + 600);
});

test("a command that is ended by a signal is transient", async () => {
  await expect(deliver({ run: node("process.kill(process.pid, 'SIGTERM')") })).rejects.toThrow(
    "was ended by SIGTERM",
  );
});

test("a program that is missing or not executable fails at once", async () => {
  await expect(deliver({ run: [join(folder, "nothing")] })).rejects.toMatchObject({
    errorClass: "permanent",
    code: "COMMAND_MISSING",
    message: expect.stringContaining("there is no such program") as string,
  });
  await expect(deliver({ run: [folder] })).rejects.toMatchObject({ code: "COMMAND_MISSING" });
});

test("a command is killed at its time limit, with the processes that it has started", async () => {
  const mark = join(folder, "started");
  const child = `require("node:fs").writeFileSync(${JSON.stringify(mark)}, String(process.pid)); setInterval(() => {}, 1000)`;
  const script = `
    require("node:child_process").spawn(process.execPath, ["-e", ${JSON.stringify(child)}], { stdio: "inherit" });
    setInterval(() => {}, 1000)`;
  const failed = deliver({ run: node(script), timeoutMs: 77 });
  failed.catch(() => undefined);
  while (!existsSync(mark) || readFileSync(mark, "utf8") === "") await turn();
  clock.timers.get(77)?.();
  await expect(failed).rejects.toMatchObject({ errorClass: "transient", code: "TIME_LIMIT" });
  const grandchild = Number(readFileSync(mark, "utf8"));
  while (isAlive(grandchild)) await turn();
});

test("a command that leaves a process behind delays the delivery only for a moment", async () => {
  const left = "setTimeout(() => {}, 60_000)";
  const script = `
    const child = require("node:child_process").spawn(process.execPath, ["-e", ${JSON.stringify(left)}], { stdio: "inherit" });
    require("node:fs").writeFileSync(${JSON.stringify(join(folder, "left"))}, String(child.pid));
    child.unref();`;
  const delivered = deliver({ run: node(script) });
  while (!clock.timers.has(200)) await turn();
  clock.timers.get(200)?.();
  await delivered;
  process.kill(Number(readFileSync(join(folder, "left"), "utf8")), "SIGKILL");
});

test("a command is killed when its delivery is aborted", async () => {
  const stop = new AbortController();
  const failed = deliver({ run: node("setInterval(() => {}, 1000)") }, stop.signal);
  stop.abort();
  await expect(failed).rejects.toMatchObject({ errorClass: "transient" });
});

test("a command that is not a list of texts is refused", () => {
  for (const run of ["ls -l", [], [""], ["ls", 5], ["a\0b"], undefined]) {
    expect(() => commandSink({ run: run as never })).toThrow(
      expect.objectContaining({ code: "BAD_OPTION", field: "sink" }) as Error,
    );
  }
});

test("no error contains the arguments of a command", async () => {
  const failed = deliver({ run: node("process.exit(1)", "argument-secret") });
  const error = (await failed.catch((thrown: unknown) => thrown)) as Error;
  expect(error.message + String(error.stack)).not.toContain("argument-secret");
});

function turn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

/** A process that has ended but was not yet reaped is dead. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}
