/**
 * A thread in a pool's process that kills the process when its worker is gone. The main thread
 * would notice too, but not while a task keeps it busy, and a task may never return.
 */
import { workerData } from "node:worker_threads";

const LOOK_MS = 500;
const worker = workerData as number;
const pause = new Int32Array(new SharedArrayBuffer(4));

// The parent changes when the worker has ended.
while (process.ppid === worker) Atomics.wait(pause, 0, 0, LOOK_MS);
// The whole process group, with everything that its task has started: see process-member.ts.
process.kill(process.platform === "win32" ? process.pid : -process.pid, "SIGKILL");
