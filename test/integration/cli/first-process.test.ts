/** Workers as containers start them: as process 1, and by npm. */
import { dirname } from "node:path";
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from "vitest";
import { type BatchLine, COMMAND, readLines, Workspace } from "../../support/command-line.ts";
import { trySystemProgram } from "../../support/system-program.ts";

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
});
afterEach(() => work.remove());

const WAIT_MS = 60_000;
/** Runs a program in its own PID namespace, as process 1. */
const SECLUDED = ["unshare", "--pid", "--fork", "--kill-child"] as const;

/** Handlers write their process, then wait until the file `go` exists. */
const HELD = `chunkSize: 1, concurrency: 1, process: async () => {
  appendFileSync("pids.txt", process.pid + "\\n");
  while (!existsSync("go")) await new Promise((resolve) => setTimeout(resolve, 5));
}`;

async function submit(): Promise<void> {
  work.writePipeline(HELD);
  work.writeItems(20);
  await work.run("submit", "pipeline.ts", "--input", "items.jsonl");
}

async function readOnly(): Promise<BatchLine | undefined> {
  return readLines<BatchLine>((await work.run("list", "--json")).stdout)[0];
}

/** Running items. */
function countPids(): number {
  try {
    return work.read("pids.txt").split("\n").length - 1;
  } catch {
    return 0;
  }
}

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** The child process of a process, according to the system. */
async function findChild(parent: number): Promise<number> {
  const { stdout } = await work.startProgram("ps", ["-o", "pid=", "--ppid", String(parent)]).ended;
  return Number(stdout.trim().split("\n")[0]);
}

for (const processes of [null, "2"]) {
  const what = processes === null ? "a worker" : "a supervisor";
  test(`${what} as process 1 finishes its running items at SIGTERM and exits 0`, async (context) => {
    const [program, ...args] = SECLUDED;
    const problem = trySystemProgram(program, ...args, "true");
    if (problem !== null) context.skip(`PID namespaces cannot be created here: ${problem}`);
    await submit();
    const flags = processes === null ? [] : ["--processes", processes];
    const line = [process.execPath, COMMAND, "work", "pipeline.ts", ...flags];
    const running = work.startProgram(program, [...args, ...line]);
    const hands = processes === null ? 1 : 2;
    await vi.waitUntil(() => countPids() === hands, WAIT_MS);
    if (processes === null) expect(work.read("pids.txt")).toBe("1\n");
    process.kill(await findChild(running.pid), "SIGTERM");
    await running.waitFor(new RegExp(`(?:SIGTERM: finishing running items[^]*){${hands}}`));
    work.write("go", "");
    const { code, stderr } = await running.ended;
    expect(code, stderr).toBe(0);
    expect(await readOnly()).toMatchObject({ succeeded: hands, failed: 0, pending: 20 - hands });
  });
}

test("a worker as process 1 can be stopped while it loads", async (context) => {
  const [program, ...args] = SECLUDED;
  const problem = trySystemProgram(program, ...args, "true");
  if (problem !== null) context.skip(`PID namespaces cannot be created here: ${problem}`);
  work.write(
    "slow.ts",
    `process.stderr.write("LOADING\\n");
     await new Promise((resolve) => setTimeout(resolve, 3_600_000));
     export default 1;`,
  );
  const line = [process.execPath, COMMAND, "work", "slow.ts"];
  const running = work.startProgram(program, [...args, ...line]);
  await running.waitFor(/LOADING/);
  process.kill(await findChild(running.pid), "SIGTERM");
  expect(await running.ended).toMatchObject({ code: 143 });
});

const UNDER_NPM = [
  // The shell between them does not forward the signal.
  ["SIGTERM to npm alone, as a stopping container sends it,", "SIGTERM", false, ""],
  ["SIGTERM to npm alone without a shell below it", "SIGTERM", false, "exec "],
  // npm forwards it once more.
  ["SIGINT to the whole group, as a terminal sends it,", "SIGINT", true, "exec "],
] as const;

for (const [what, signal, grouped, prefix] of UNDER_NPM) {
  test(`${what} lets the worker stop in order`, async () => {
    await submit();
    const command = `${prefix}node "${COMMAND}" work pipeline.ts`;
    work.write("package.json", JSON.stringify({ private: true, scripts: { work: command } }));
    const path = { PATH: `${dirname(process.execPath)}:${process.env["PATH"]}` };
    const npm = work.startProgram("npm", ["run", "work"], path, { grouped });
    await vi.waitUntil(() => countPids() === 1, WAIT_MS);
    const worker = Number(work.read("pids.txt"));
    onTestFinished(() => {
      if (isThere(worker)) process.kill(worker, "SIGKILL");
    });
    npm.signal(signal);
    await npm.waitFor(new RegExp(`${signal}: finishing running items`));
    expect(isThere(worker)).toBe(true);
    work.write("go", "");
    await npm.ended;
    await vi.waitUntil(() => !isThere(worker), WAIT_MS);
    expect(await readOnly()).toMatchObject({ succeeded: 1, failed: 0, pending: 19 });
  });
}

test("the same signal within half a second is ignored; another or a later signal stops at once", async () => {
  work.write(
    "signals.ts",
    `import { StopRequest } from "./node_modules/sluice/dist/cli/process/stop-request.js";
     let now = 0;
     const stop = new StopRequest({ monotonicMs: () => now } as any, (code) => console.log("ends", code));
     const send = (at: number, signal: NodeJS.Signals) => new Promise<void>((resolve) => {
       now = at;
       process.once(signal, () => setImmediate(() => { console.log(at, signal, stop.received); resolve(); }));
       process.kill(process.pid, signal);
     });
     setInterval(() => {}, 3_600_000);
     await send(0, "SIGTERM");
     await send(499, "SIGTERM");
     await send(499, "SIGINT");
     await send(500, "SIGTERM");
     stop.release();
     await send(100, "SIGTERM");
     await send(600, "SIGTERM");
     process.exit(0);`,
  );
  const { stdout, stderr } = await work.startProgram(process.execPath, ["signals.ts"]).ended;
  expect(stdout.trim().split("\n"), stderr).toEqual([
    "0 SIGTERM SIGTERM",
    "499 SIGTERM SIGTERM",
    "ends 130",
    "499 SIGINT SIGTERM",
    "ends 143",
    "500 SIGTERM SIGTERM",
    "100 SIGTERM SIGTERM",
    "ends 143",
    "600 SIGTERM SIGTERM",
  ]);
});
