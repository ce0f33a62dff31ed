/**
 * The program of a pool's process. It ends with its worker: when the channel closes nothing holds it
 * any more, and if a task keeps it busy, the thread beside it sees that the worker is gone.
 */
import { constants, getPriority, setPriority } from "node:os";
import { Worker } from "node:worker_threads";
import { nextTo } from "./next-to.ts";
import type { FromMember, ToMember } from "./process-messages.ts";
import { answerRequest } from "./run-module.ts";

const NICER = 5;

// A terminal or a service manager tells all processes to stop: when this one does is its worker's affair.
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(name, () => undefined);

// The worker's own loop, which renews leases and answers for its health, goes before its tasks.
setPriority(Math.min(getPriority() + NICER, constants.priority.PRIORITY_LOW));

// Nobody may be reading any more what a task prints: that is no fault of the task.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined);

// The channel is ours: a task that finds it would take its worker for a program that it knows.
const send = process.send?.bind(process);
delete process.send;

function say(message: FromMember): void {
  // Nobody may be listening any more.
  send?.(message, () => undefined);
}

process.on("message", (message) => {
  const { id, request } = message as ToMember;
  void answerRequest(request).then((answer) => say({ kind: "answer", id, answer }));
});

// Told to end, or without its worker: what tasks have started and left behind goes along. While
// there is a worker it sees to that, and hears the exit code.
process.on("exit", () => {
  if (!process.connected && process.platform !== "win32") process.kill(-process.pid, "SIGKILL");
});

new Worker(nextTo(import.meta.url, "worker-watch"), {
  workerData: Number(process.argv[2]),
  resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2, stackSizeMb: 1 },
}).unref();
say({ kind: "ready" });
