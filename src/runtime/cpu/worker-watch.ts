/**
 * A thread beside a pool's process that ends it when its worker is gone. The process itself would
 * hear of that, but not while a task keeps it busy, and a task may never return.
 */
import { workerData } from "node:worker_threads";

const LOOK_MS = 500;
const worker = workerData as number;
const pause = new Int32Array(new SharedArrayBuffer(4));

// An orphan gets another parent.
while (process.ppid === worker) Atomics.wait(pause, 0, 0, LOOK_MS);
// With what its task has started: see process-member.ts.
process.kill(process.platform === "win32" ? process.pid : -process.pid, "SIGKILL");
