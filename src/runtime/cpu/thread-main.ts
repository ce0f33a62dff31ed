/** The program of a pool's thread: what Piscina calls. */
import { serialize } from "node:v8";
import { move } from "piscina";
import type { CpuRequest } from "./member.ts";
import { refuseData, runModule } from "./run-module.ts";
import { writeThrown } from "./thrown.ts";

// A thread writes to its worker's streams: what was asked for on standard output must stay alone there.
process.stdout.write = process.stderr.write.bind(process.stderr);

/** Written down here, as an answer that cannot be copied would end the thread on its way out. */
export async function serve(request: CpuRequest): Promise<unknown> {
  const answer = await runModule(request);
  try {
    return move(serialize(answer));
  } catch (error) {
    return serialize({ kind: "threw", thrown: writeThrown(refuseData("result", error)) });
  }
}
