/**
 * A subject's second process: the same script again, with `role: "helper"` in its options. It works
 * until the first process stops it, and then returns its notes.
 */
import { fork } from "node:child_process";
import { once } from "node:events";

export type Role = "main" | "helper";

export interface Helper<Note> {
  /** Stops it and returns its notes. */
  readonly finish: () => Promise<readonly Note[]>;
}

/** Starts the script again, and returns when it works. */
export async function startHelper<Note>(script: string, options: object): Promise<Helper<Note>> {
  const child = fork(script, [JSON.stringify({ ...options, role: "helper" })], {
    execArgv: ["--disable-warning=ExperimentalWarning"],
    // Its output is not the reply of this subject.
    silent: true,
  });
  const exit = once(child, "exit");
  const endsEarly = exit.then(([code]): never => {
    throw new Error(`the second process ended early (exit code ${code})`);
  });
  await Promise.race([once(child, "message"), endsEarly]);
  return {
    finish: async () => {
      const answer = once(child, "message");
      child.send("finish");
      const [notes] = (await Promise.race([answer, endsEarly])) as [readonly Note[]];
      await exit;
      return notes;
    },
  };
}

/** The helper's side: reports that it works, waits for the end, and returns its notes. */
export async function serveAsHelper<Note>(notes: readonly Note[]): Promise<void> {
  process.send?.("works");
  await once(process, "message");
  await new Promise<void>((resolve) => {
    process.send?.(notes, undefined, undefined, () => resolve());
  });
  process.disconnect();
}

/** The host's clock, which all its processes share. */
export function readHostMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
