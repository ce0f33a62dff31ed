/** A document that kills its reader is rejected; every other result comes from the task. */
import { type ItemContext, PermanentError, TransientError } from "sluice";
import { expect, test } from "vitest";
import { runTask } from "./run-task.ts";

const task = { module: new URL("file:///task.ts"), name: "work" };

const run = (cpu: (...args: unknown[]) => Promise<unknown>): Promise<unknown> =>
  runTask({ cpu } as unknown as ItemContext, task, { path: "f" });

test("the task gets the data, and its result is returned", async () => {
  expect(await run(async (...args) => args)).toEqual([
    task.module,
    { path: "f" },
    { export: "work" },
  ]);
});

test("a poison item is a parser failure, with the pool's message", async () => {
  const error = await run(() =>
    Promise.reject(new PermanentError("it took 60 s", { code: "POISON" })),
  ).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(PermanentError);
  expect(error).toMatchObject({ code: "PARSER_FAILURE", message: "it took 60 s" });
});

test("any other failure is thrown unchanged", async () => {
  for (const error of [
    new PermanentError("no", { code: "ENCRYPTED" }),
    new TransientError("later"),
    new Error("odd"),
  ]) {
    await expect(run(() => Promise.reject(error))).rejects.toBe(error);
  }
});
