/**
 * The program of a pool's process. It ends with its worker: when the channel closes, nothing keeps
 * the process alive. If a task keeps it busy, the thread beside it notices that the worker is gone.
 */
import { constants, getPriority, setPriority } from "node:os";
import { Worker } from "node:worker_threads";
import { nextTo } from "./next-to.ts";
import type { FromMember, ToMember } from "./process-messages.ts";
import { answerRequest } from "./run-module.ts";

const NICENESS = 5;

// A terminal or a service manager signals all processes: the worker decides when this one stops.
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(name, () => undefined);

// The worker's event loop, which renews leases, has priority over its tasks.
setPriority(Math.min(getPriority() + NICENESS, constants.priority.PRIORITY_LOW));

// The reader of what a task prints may be gone: that must not fail the task.
for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined);

// Hide the channel: a task that finds it may send its own messages to the worker.
const sendMessage = process.send?.bind(process);
delete process.send;

function send(message: FromMember): void {
  // The worker may be gone.
  sendMessage?.(message, () => undefined);
}

process.on("message", (message) => {
  const { id, request } = message as ToMember;
  void answerRequest(request).then((answer) => send({ kind: "answer", id, answer }));
});

// When the channel has closed, this process kills what its tasks left running. While the channel is
// open the worker does that, and reads the exit code.
process.on("exit", () => {
  if (!process.connected && process.platform !== "win32") process.kill(-process.pid, "SIGKILL");
});

new Worker(nextTo(import.meta.url, "worker-watch"), {
  workerData: Number(process.argv[2]),
  resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2, stackSizeMb: 1 },
}).unref();
send({ kind: "ready" });
