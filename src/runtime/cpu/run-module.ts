/** Runs in the member: loads the task's module, calls it and serialises the answer. */
import { fileURLToPath } from "node:url";
import { serialize } from "node:v8";
import { describeError, PermanentError } from "../../core/base/errors.ts";
import type { CpuAnswer, CpuRequest } from "./member.ts";
import { writeThrown } from "./thrown.ts";

type Task = (data: unknown) => unknown;

const MIB = 1_048_576;
/**
 * The worker deserialises an answer on its event loop and briefly holds it twice in memory: a
 * larger one would delay all other items.
 */
const ANSWER_MIB_MAX = 64;

/**
 * Never rejects: what the task throws is an answer too. The answer is serialised here, because a
 * value that cannot be copied would otherwise fail later, on the channel.
 */
export async function answerRequest(request: CpuRequest): Promise<Uint8Array<ArrayBuffer>> {
  const answer = await runModule(request);
  try {
    const written = serialize(answer);
    if (written.byteLength <= ANSWER_MIB_MAX * MIB) return written;
    const mib = Math.ceil(written.byteLength / MIB);
    throw new RangeError(`it has ${mib} MiB, over the limit of ${ANSWER_MIB_MAX}`);
  } catch (error) {
    return serialize({ kind: "threw", thrown: writeThrown(refuseData("result", error)) });
  }
}

async function runModule({ module, exportName, data }: CpuRequest): Promise<CpuAnswer> {
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
    const { message: reason } = describeError(cause);
    throw new PermanentError(`the CPU task ${file} cannot be loaded: ${reason}`, {
      code: "BAD_CPU_TASK",
      cause,
    });
  }
  const task = exported[exportName];
  if (typeof task === "function") return task as Task;
  throw new PermanentError(
    exportName === "default"
      ? `the CPU task ${file} has no default export that is a function`
      : `the CPU task ${file} has no function ${exportName}`,
    { code: "BAD_CPU_TASK" },
  );
}

/** The error for data or a result that cannot be copied to another process or thread. */
export function refuseData(what: "data" | "result", cause: unknown): PermanentError {
  const { message: reason } = describeError(cause);
  return new PermanentError(
    `the ${what} of a CPU task cannot be copied (${reason}): use plain data, buffers and paths`,
    { code: "BAD_CPU_TASK", cause },
  );
}
