/** Runs the `sluice` command on the store of this system, as an operator would. */
import { execFile } from "node:child_process";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { Folders } from "./folders.ts";

const run = promisify(execFile);
const COMMAND = join(dirname(fileURLToPath(import.meta.resolve("sluice"))), "cli", "main.js");
const OUTPUT_BYTES_MAX = 16 * 1_048_576;

export async function runSluice(folders: Folders, ...args: readonly string[]): Promise<string> {
  const env = { ...process.env, SLUICE_STORE: folders.store, NO_COLOR: "1" };
  const command = [COMMAND, ...args];
  const { stdout } = await run(process.execPath, command, { env, maxBuffer: OUTPUT_BYTES_MAX });
  return stdout;
}
