/**
 * The program of a pool's process. It ends with its worker: when the channel closes nothing holds it
 * any more, and if a task keeps it busy, the thread beside it sees that the worker is gone.
 */
import { constants, getPriority, setPriority } from "node:os";
import { Worker } from "node:worker_threads";
import type { CpuAnswer, CpuRequest } from "./member.ts";
import { nextTo } from "./next-to.ts";
import type { FromMember, ToMember } from "./process-messages.ts";
import { refuseData, runModule } from "./run-module.ts";
import { writeThrown } from "./thrown.ts";

const NICER = 5;

// A terminal or a service manager tells all processes to stop: when this one does is its worker's affair.
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(name, () => undefined);

// The worker's own loop, which renews leases and answers for its health, goes before its tasks.
setPriority(Math.min(getPriority() + NICER, constants.priority.PRIORITY_LOW));

// A task may take the channel's functions away from us.
const send = process.send?.bind(process);

function say(message: FromMember): void {
  // Nobody may be listening any more.
  send?.(message, () => undefined);
}

async function answer(id: number, request: CpuRequest): Promise<void> {
  const given: CpuAnswer = await runModule(request);
  try {
    say({ kind: "answer", id, answer: given });
  } catch (error) {
    const thrown = writeThrown(refuseData("result", error));
    say({ kind: "answer", id, answer: { kind: "threw", thrown } });
  }
}

process.on("message", (message) => {
  const { id, request } = message as ToMember;
  void answer(id, request);
});

new Worker(nextTo(import.meta.url, "worker-watch"), {
  workerData: Number(process.argv[2]),
  resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2, stackSizeMb: 1 },
}).unref();
say({ kind: "ready" });
