/**
 * A process that has loaded the built command and runs it over and over, for its parent: Node's
 * start and the loading of some five hundred modules cost three quarters of a short command. A
 * command sees what it would see in a process of its own: folder, variables, arguments, pipes. What
 * each command wrote ends with a mark on both pipes.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { runProgram as RunProgram } from "../../src/cli/program.ts";

export interface WarmCommand {
  readonly cwd: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly mark: string;
}

export interface WarmEnding {
  readonly code: number;
  /** The command has left something running: the process must not run another one. */
  readonly isSpent: boolean;
}

const LOOK_EVERY_MS = 2;
const LOOKS_MAX = 20;

const [, , command = "", program = ""] = process.argv;

/** Thrown in place of ending the process. */
class Exit extends Error {
  readonly code: number;

  constructor(code: number) {
    super(`exit ${code}`);
    this.code = code;
  }
}

const { runProgram } = (await import(program)) as { runProgram: typeof RunProgram };
// Both pipes are opened by the first look at them.
const pipes = [process.stdout, process.stderr];

process.on("message", (message: WarmCommand) => {
  void perform(message).then((ending) => {
    process.stdout.write(message.mark);
    process.stderr.write(message.mark);
    process.send?.(ending);
  });
});
process.on("disconnect", () => process.exit());
/** Both pipes and the parent's. */
const idle = countResources();

async function perform({ cwd, args, env }: WarmCommand): Promise<WarmEnding> {
  process.chdir(cwd);
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, env);
  process.argv = [process.execPath, command, ...args];
  let code: number;
  try {
    code = await runProgram(args, (early) => {
      throw new Exit(early);
    });
  } catch (error) {
    if (!(error instanceof Exit)) throw error;
    code = error.code;
  }
  for (const stream of pipes) {
    stream.removeAllListeners("error");
    stream.removeAllListeners("drain");
  }
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.removeAllListeners(signal);
  return { code, isSpent: !(await becomesIdle()) };
}

/** What a command began may need a moment to end. */
async function becomesIdle(): Promise<boolean> {
  for (let look = 0; look < LOOKS_MAX; look++) {
    if (countResources() <= idle) return true;
    await sleep(LOOK_EVERY_MS);
  }
  return false;
}

function countResources(): number {
  return process.getActiveResourcesInfo().filter((name) => name !== "Immediate").length;
}
