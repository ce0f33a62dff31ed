/** Workers as they are started in containers: as process 1, and by npm. */
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type BatchLine, COMMAND, readLines, Workspace } from "../../support/command-line.ts";
import { trySystemProgram } from "../../support/system-program.ts";

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
});
afterEach(() => work.remove());

const WAIT_MS = 60_000;
/** Ids of its own for a program: it is process 1 there. */
const SECLUDED = ["unshare", "--pid", "--fork", "--kill-child"] as const;

/** Handlers tell who they are, and wait until the file `go` is there. */
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

/** The program that a process has started, as the system has it. */
async function findChild(parent: number): Promise<number> {
  const { stdout } = await work.startProgram("ps", ["-o", "pid=", "--ppid", String(parent)]).ended;
  return Number(stdout.trim().split("\n")[0]);
}

for (const processes of [null, "2"]) {
  const what = processes === null ? "a worker" : "a supervisor";
  test(`${what} that is process 1 heeds SIGTERM, finishes what is in hand and exits 0`, async (context) => {
    const [program, ...args] = SECLUDED;
    const problem = trySystemProgram(program, ...args, "true");
    if (problem !== null) context.skip(`processes cannot have ids of their own here: ${problem}`);
    await submit();
    const flags = processes === null ? [] : ["--processes", processes];
    const line = [process.execPath, COMMAND, "work", "pipeline.ts", ...flags];
    const running = work.startProgram(program, [...args, ...line]);
    const hands = processes === null ? 1 : 2;
    await vi.waitUntil(() => {
      try {
        return work.read("pids.txt").trim().split("\n").length === hands;
      } catch {
        return false;
      }
    }, WAIT_MS);
    if (processes === null) expect(work.read("pids.txt")).toBe("1\n");
    process.kill(await findChild(running.pid), "SIGTERM");
    await running.waitFor(new RegExp(`(?:SIGTERM: finishing what is in hand[^]*){${hands}}`));
    work.write("go", "");
    const { code, stderr } = await running.ended;
    expect(code, stderr).toBe(0);
    expect(await readOnly()).toMatchObject({ succeeded: hands, failed: 0, pending: 20 - hands });
  });
}

test("one that is process 1 can be stopped while it is being loaded", async (context) => {
  const [program, ...args] = SECLUDED;
  const problem = trySystemProgram(program, ...args, "true");
  if (problem !== null) context.skip(`processes cannot have ids of their own here: ${problem}`);
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

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  test(`under npm a ${signal} to all of them, which npm hands on once more, is one and not two`, async () => {
    await submit();
    const command = `node "${COMMAND}" work pipeline.ts`;
    work.write("package.json", JSON.stringify({ private: true, scripts: { work: command } }));
    const path = { PATH: `${process.execPath.replace(/\/[^/]*$/, "")}:${process.env["PATH"]}` };
    // As a terminal does it for Ctrl-C.
    const npm = work.startProgram("npm", ["run", "work"], path, { grouped: true });
    await vi.waitUntil(() => {
      try {
        return work.read("pids.txt").includes("\n");
      } catch {
        return false;
      }
    }, WAIT_MS);
    npm.signal(signal);
    await npm.waitFor(new RegExp(`${signal}: finishing what is in hand`));
    const worker = Number(work.read("pids.txt"));
    // It is still there: the echo has not ended it.
    await new Promise((resolve) => {
      setTimeout(resolve, 300);
    });
    expect(() => process.kill(worker, 0)).not.toThrow();
    work.write("go", "");
    await npm.ended;
    await vi.waitUntil(async () => (await readOnly())?.succeeded === 1, WAIT_MS);
    expect(await readOnly()).toMatchObject({ succeeded: 1, failed: 0, pending: 19 });
  });
}
