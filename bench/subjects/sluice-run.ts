/**
 * The peak memory of `sluice run`, the way most batches are run: the command itself is started, and
 * reports its peak memory at its exit.
 */
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { checkCount, type Figures, runSubject } from "../subject-process.ts";

interface RunOptions {
  readonly itemsPath: string;
  readonly items: number;
  readonly chunkSize: number;
}

const SLUICE = new URL("../../dist/index.js", import.meta.url);
const COMMAND = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
/** Loaded before the command: prints the kernel's high-water mark of this process when it ends. */
const MARK = `import { readFileSync } from "node:fs";
process.on("exit", () => process.stderr.write(readFileSync("/proc/self/status", "utf8")));
`;

async function measureRun(options: RunOptions & { readonly folder: string }): Promise<Figures> {
  const pipeline = join(options.folder, "pipeline.mjs");
  const mark = join(options.folder, "mark.mjs");
  await writeFile(mark, MARK);
  await writeFile(
    pipeline,
    `import { definePipeline, jsonl } from ${JSON.stringify(SLUICE.href)};
export default definePipeline({
  name: "bench",
  source: ({ input }) => jsonl(input),
  chunkSize: ${options.chunkSize},
  process: async () => {},
});
`,
  );
  const store = join(options.folder, "sluice.db");
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [
    "--import",
    mark,
    COMMAND,
    "run",
    pipeline,
    "--input",
    options.itemsPath,
    "--store",
    store,
    "--json",
  ]);
  const ended = JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as {
    readonly succeeded: number;
    readonly elapsedMs: number;
  };
  checkCount("items that succeeded", ended.succeeded, options.items);
  const kib = Number(/^VmHWM:\s*(\d+) kB$/m.exec(stderr)?.[1]);
  return {
    commandPeakRssMb: (kib * 1024) / 1e6,
    itemsPerSecond: (options.items * 1000) / ended.elapsedMs,
  };
}

await runSubject(measureRun);
