/** The program of a pool's thread: the functions that Piscina calls. */
import { move } from "piscina";
import type { CpuRequest } from "./member.ts";
import { answerRequest } from "./run-module.ts";

// A thread writes to its worker's streams, and standard output is only for the command's results.
process.stdout.write = process.stderr.write.bind(process.stderr);

/** Called when the thread starts, so that its start does not count as the first task's time. */
export function wake(): void {
  // Loading this file is the work.
}

export async function serve(request: CpuRequest): Promise<unknown> {
  return move(await answerRequest(request));
}
