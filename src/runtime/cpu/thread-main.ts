/** The program of a pool's thread: what Piscina calls. */
export { runModule } from "./run-module.ts";

// A thread writes to its worker's streams: what was asked for on standard output must stay alone there.
process.stdout.write = process.stderr.write.bind(process.stderr);
