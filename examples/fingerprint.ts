/**
 * Fingerprints the files of a folder on every core: the handler hands over a path, and the bytes are
 * read and hashed in a process of the pool. One that takes too long or too much memory is killed there.
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
