/** A member's own work: loads the module that it is asked for and calls it. */
import { fileURLToPath } from "node:url";
import { PermanentError } from "../../core/errors.ts";
import type { CpuAnswer, CpuRequest } from "./member.ts";
import { writeThrown } from "./thrown.ts";

type Task = (data: unknown) => unknown;

/** Never rejects: what the task throws is an answer too. */
export async function runModule({ module, exportName, data }: CpuRequest): Promise<CpuAnswer> {
  try {
    const task = await loadTask(module, exportName);
    return { kind: "returned", value: await task(data) };
  } catch (error) {
    return { kind: "threw", thrown: writeThrown(error) };
  }
}

async function loadTask(module: string, exportName: string): Promise<Task> {
  const file = fileURLToPath(module);
  let exported: Readonly<Record<string, unknown>>;
  try {
    exported = (await import(module)) as Readonly<Record<string, unknown>>;
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new PermanentError(`the CPU task ${file} cannot be loaded: ${reason}`, {
      code: "CPU_MODULE",
      cause,
    });
  }
  const task = exported[exportName];
  if (typeof task === "function") return task as Task;
  throw new PermanentError(
    exportName === "default"
      ? `the CPU task ${file} has no default export that is a function`
      : `the CPU task ${file} has no function ${exportName}`,
    { code: "CPU_MODULE" },
  );
}

/** What cannot be copied from one process or thread to another. */
export function refuseData(what: "data" | "result", cause: unknown): PermanentError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  return new PermanentError(
    `the ${what} of a CPU task cannot be handed over (${reason}): use plain data, buffers and paths`,
    { code: "CPU_DATA", cause },
  );
}
