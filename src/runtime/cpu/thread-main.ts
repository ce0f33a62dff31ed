/** The program of a pool's thread: what Piscina calls. */
import { move } from "piscina";
import type { CpuRequest } from "./member.ts";
import { answerRequest } from "./run-module.ts";

// A thread writes to its worker's streams: what was asked for on standard output must stay alone there.
process.stdout.write = process.stderr.write.bind(process.stderr);

/** It has been loaded: what a task takes from now on is its own. */
export function wake(): void {
  // Nothing is to be done.
}

export async function serve(request: CpuRequest): Promise<unknown> {
  return move(await answerRequest(request));
}
