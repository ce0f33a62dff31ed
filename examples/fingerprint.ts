/**
 * Hashes the files of a folder on every core. The handler passes a path, and a process of the pool
 * reads and hashes the file. A process that takes too long or too much memory is killed.
 *
 *   npx sluice run examples/fingerprint.ts --input examples
 */
import { definePipeline, folder } from "sluice";
import type { Fingerprint } from "./fingerprint-task.ts";

export default definePipeline({
  name: "fingerprint",
  cpu: { timeLimitMs: 30_000, memoryBytesMax: 256 * 1_048_576 },
  source: ({ input }) => folder(input),
  key: (file) => file.path,
  process: (file, { cpu }) => cpu<Fingerprint>("./fingerprint-task.ts", file.absolutePath),
});
