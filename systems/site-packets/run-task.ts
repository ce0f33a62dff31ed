/**
 * Has the pool read a document. A document that kills its reader is rejected, like any other broken
 * one.
 */
import { describeError, type ItemContext } from "sluice";
import { reject } from "./rejection.ts";

/** A function of a module, which a process of the pool loads. */
export interface Task {
  readonly module: URL;
  readonly name: string;
}

export async function runTask<Result>(
  { cpu }: ItemContext,
  { module, name }: Task,
  data: unknown,
): Promise<Result> {
  try {
    return await cpu<Result>(module, data, { export: name });
  } catch (error) {
    const { code, message } = describeError(error);
    // Three processes in a row: each exceeded its memory limit, took too long, or crashed.
    if (code === "POISON") throw reject("PARSER_FAILURE", message);
    throw error;
  }
}
