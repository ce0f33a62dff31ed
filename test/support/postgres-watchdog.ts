/**
 * Lives a moment longer than the test runner. Its input ends when the runner has stopped the server
 * or has died. Then it stops the server, if it still runs, and deletes its folder.
 *   node postgres-watchdog.ts <folder>
 */
import { readFileSync, readlinkSync, realpathSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";

const STOP_MS = 5_000;
const LOOK_EVERY_MS = 20;

const folder = process.argv[2] ?? "";
const data = join(folder, "data");

/** The id of a server that runs on our folder; another process may have the id by now. */
function findServer(): number | null {
  try {
    const pid = Number(readFileSync(join(data, "postmaster.pid"), "utf8").split("\n")[0]);
    process.kill(pid, 0);
    return worksElsewhere(pid) ? null : pid;
  } catch {
    return null;
  }
}

function worksElsewhere(pid: number): boolean {
  try {
    return readlinkSync(`/proc/${pid}/cwd`) !== realpathSync(data);
  } catch {
    // No such folder on this system: the answer is unknown.
    return false;
  }
}

async function stop(signal: NodeJS.Signals): Promise<void> {
  const pid = findServer();
  if (pid === null) return;
  process.kill(pid, signal);
  for (let waitedMs = 0; waitedMs < STOP_MS && findServer() !== null; waitedMs += LOOK_EVERY_MS) {
    await setTimeout(LOOK_EVERY_MS);
  }
}

for await (const _chunk of process.stdin) {
  // The input carries no data: only its end counts.
}
// Without a checkpoint: its data is thrown away.
await stop("SIGQUIT");
await stop("SIGKILL");
rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
