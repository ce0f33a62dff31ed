/** `sluice work --processes`: several processes, and each of them may die. */
import { readFileSync } from "node:fs";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type BatchLine, readLines, Workspace } from "../../support/command-line.ts";

let work: Workspace;
beforeEach(() => {
  work = new Workspace();
});
afterEach(() => {
  for (const pid of readPids()) kill(pid);
  work.remove();
});

const SUBMIT = ["submit", "pipeline.ts", "--input", "items.jsonl"];
const WORK = ["work", "pipeline.ts", "--processes"];
/** A general time limit: a busy machine may be slow. */
const WAIT_MS = 60_000;
/** Each process writes its number. */
const PID = `appendFileSync("pids.txt", process.env.SLUICE_PROCESS + " " + process.pid + "\\n");`;
/** Handlers wait until the file \`go\` exists. */
const HOLD = `while (!existsSync("go")) await new Promise((resolve) => setTimeout(resolve, 5));`;

function readPids(): number[] {
  try {
    // The last line may not be written yet.
    const lines = work.read("pids.txt").split("\n").slice(0, -1);
    return [...new Set(lines.map((line) => Number(line.split(" ")[1])))];
  } catch {
    return [];
  }
}

function kill(pid: number): void {
  if (isAlive(pid)) process.kill(pid, "SIGKILL");
}

/** A zombie process (ended, but not yet reaped) counts as dead. */
function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

async function waitForPids(count: number): Promise<number[]> {
  return vi.waitUntil(() => {
    const pids = readPids();
    return pids.length >= count && pids;
  }, WAIT_MS);
}

test("each process knows its number, an ending is reported once, and all exit 0 when nothing is left", async () => {
  work.writePipeline(`chunkSize: 1, concurrency: 1, process: async () => {
    ${PID}
    appendFileSync("process-" + process.env.SLUICE_PROCESS, "");
    const all = ["process-1", "process-2", "process-3"];
    while (!all.every((name) => existsSync(name))) await new Promise((resolve) => setTimeout(resolve, 5));
  }`);
  work.writeItems(30);
  const id = (await work.run(...SUBMIT)).stdout.trim();
  const { code, stdout, stderr } = await work.run(...WORK, "3", "--until-idle");
  expect(code, stderr).toBe(0);
  expect(stdout.trim().split("\n")).toHaveLength(1);
  expect(stdout).toMatch(new RegExp(`^${id} {2}letters {2}succeeded {2}30 items, `));
  expect(stderr).toContain("supervising 3 processes");
  const numbers = work.read("pids.txt").trim().split("\n");
  expect(new Set(numbers.map((line) => line.split(" ")[0]))).toEqual(new Set(["1", "2", "3"]));
  for (const number of [1, 2, 3])
    expect(stderr).toMatch(new RegExp(`^\\[${number}\\] working on`, "m"));
});

test("an item that kills its process on the main thread becomes a dead letter, and all others succeed", async () => {
  work.writePipeline(`chunkSize: 20, process: async (item) => {
    if (item.n === 137) process.kill(process.pid, "SIGKILL");
    await null;
  }`);
  work.writeItems(400);
  const id = (await work.run(...SUBMIT)).stdout.trim();
  const { code, stdout, stderr } = await work.run(...WORK, "2", "--until-idle", "--json");
  expect(code, stderr).toBe(0);
  expect(readLines<BatchLine>(stdout)).toMatchObject([
    { batch: id, state: "completed_with_errors", succeeded: 399, failed: 1, pending: 0 },
  ]);
  const { stdout: dead } = await work.run("dead", id, "--json");
  expect(readLines(dead)).toMatchObject([{ item: 137, code: "POISON", deaths: 3 }]);
  const deaths = [...stderr.matchAll(/process \d was killed by SIGKILL, (\d) deaths? so far/g)];
  expect(deaths.map(([, count]) => count)).toEqual(["1", "2", "3"]);
  expect(stderr).toContain("stopped: 3 deaths of 2 processes");
});

test("an item that never returns on the main thread becomes a dead letter, and all others succeed", async () => {
  work.writePipeline(`chunkSize: 5, process: (item) => {
    if (item.n === 7) for (;;);
  }`);
  work.writeItems(20);
  const id = (await work.run(...SUBMIT)).stdout.trim();
  const env = { SLUICE_HEARTBEAT_TIMEOUT: "3s", SLUICE_HEALTH_PORT: "off" };
  const { code, stderr } = await work.start([...WORK, "2", "--until-idle"], { env }).ended;
  expect(code, stderr).toBe(0);
  expect((await work.runJson("status", id)).view).toMatchObject({ succeeded: 19, failed: 1 });
  const { stdout: dead } = await work.run("dead", id, "--json");
  expect(readLines(dead)).toMatchObject([{ item: 7, code: "POISON", deaths: 3 }]);
  expect(stderr).toMatch(
    /\[\d\] error: the event loop has been blocked for .*: this process is killed/,
  );
  expect(stderr).toMatch(/process \d was killed by SIGKILL/);
});

test("a signal is forwarded: running items finish, the supervisor exits 0 and no process is left", async () => {
  work.writePipeline(`chunkSize: 1, concurrency: 1, process: async () => { ${PID} ${HOLD} }`);
  work.writeItems(20);
  await work.run(...SUBMIT);
  const supervisor = work.start([...WORK, "2"]);
  const pids = await waitForPids(2);
  supervisor.signal("SIGTERM");
  // A repeated signal, as npm or systemd may send it.
  supervisor.signal("SIGTERM");
  for (const pid of pids) process.kill(pid, "SIGTERM");
  await supervisor.waitFor(/(?:SIGTERM: finishing running items[^]*){2}/);
  await supervisor.waitFor(/SIGTERM: stopping 2 processes/);
  work.write("go", "");
  const { code, stderr } = await supervisor.ended;
  expect(code, stderr).toBe(0);
  expect(pids.filter(isAlive)).toEqual([]);
  const [batch] = readLines<BatchLine>((await work.run("list", "--json")).stdout);
  expect(batch).toMatchObject({ state: "running", succeeded: 2, failed: 0, pending: 18 });
});

test("a second signal kills all processes at once and loses nothing", async () => {
  work.writePipeline(`chunkSize: 1, concurrency: 1, process: async () => { ${PID} ${HOLD} }`);
  work.writeItems(6);
  const id = (await work.run(...SUBMIT)).stdout.trim();
  const supervisor = work.start([...WORK, "2"], { env: { SLUICE_DRAIN_MS: "3600000" } });
  const pids = await waitForPids(2);
  supervisor.signal("SIGTERM");
  await supervisor.waitFor(/stopping 2 processes/);
  await vi.waitUntil(() => {
    if (!supervisor.isOver) supervisor.signal("SIGTERM");
    return supervisor.isOver;
  }, WAIT_MS);
  expect(await supervisor.ended).toMatchObject({ code: 143 });
  await vi.waitUntil(() => pids.every((pid) => !isAlive(pid)), WAIT_MS);
  work.write("go", "");
  await work.run("work", "pipeline.ts", "--until-idle");
  expect((await work.runJson("status", id)).view).toMatchObject({ succeeded: 6, pending: 0 });
});

test("the processes of a killed supervisor end and give back their leases", async () => {
  work.writePipeline(`chunkSize: 1, concurrency: 1, process: async (_item, { signal, attempt }) => {
    ${PID}
    appendFileSync("attempts.txt", attempt + "\\n");
    while (!existsSync("go") && !signal.aborted) await new Promise((resolve) => setTimeout(resolve, 5));
    signal.throwIfAborted();
  }`);
  work.writeItems(6);
  const id = (await work.run(...SUBMIT)).stdout.trim();
  const supervisor = work.start([...WORK, "2"], { env: { SLUICE_DRAIN_MS: "50" } });
  const pids = await waitForPids(2);
  supervisor.signal("SIGKILL");
  expect(await supervisor.ended).toMatchObject({ signal: "SIGKILL" });
  await vi.waitUntil(() => pids.every((pid) => !isAlive(pid)), WAIT_MS);
  work.write("go", "");
  await work.run("work", "pipeline.ts", "--until-idle");
  expect((await work.runJson("status", id)).view).toMatchObject({ succeeded: 6, pending: 0 });
  // Given back in order: no attempt was counted, and no chunk ran guarded.
  expect(new Set(work.read("attempts.txt").trim().split("\n"))).toEqual(new Set(["1"]));
});

test("a process of a killed supervisor ends even while it computes without a pause", async () => {
  work.writePipeline(`concurrency: 1, process: () => { ${PID} for (;;); }`);
  work.writeItems(1);
  await work.run(...SUBMIT);
  const env = { SLUICE_DRAIN_MS: "50", SLUICE_ABORT_GRACE_MS: "50" };
  const supervisor = work.start([...WORK, "1"], { env });
  const pids = await waitForPids(1);
  supervisor.signal("SIGKILL");
  await supervisor.ended;
  await vi.waitUntil(() => pids.every((pid) => !isAlive(pid)), WAIT_MS);
});

test("a fatal error in one process stops all of them with exit 70", async () => {
  work.writePipeline(`chunkSize: 1, concurrency: 1, process: async (item) => {
    ${PID}
    if (item.n === 3) throw new FatalError("credentials are gone", { code: "NO_ACCESS" });
    await new Promise((resolve) => setTimeout(resolve, 20));
  }`);
  work.writeItems(50);
  await work.run(...SUBMIT);
  const { code, stderr } = await work.run(...WORK, "2");
  expect(code, stderr).toBe(70);
  expect(stderr).toMatch(/^\[\d\] error NO_ACCESS: credentials are gone$/m);
  expect(stderr).toMatch(/process \d cannot continue \(exit 70\): the others are stopped/);
  expect(readPids().filter(isAlive)).toEqual([]);
});

test("a usage error is reported once and not retried", async () => {
  work.writePipeline();
  const number = await work.run(...WORK, "0");
  expect(number.code).toBe(2);
  expect(number.stderr).toContain("--processes must be a whole number from 1 to 1024");
  const file = await work.run("work", "nowhere.ts", "--processes", "1");
  expect(file.code).toBe(2);
  expect(file.stderr.match(/error FILE_MISSING/g)).toHaveLength(1);
});

test("a process that was told to recycle is restarted and not counted as dead", async () => {
  work.writePipeline(`chunkSize: 1, concurrency: 1, process: async () => { ${PID} ${HOLD} }`);
  work.writeItems(20);
  await work.run(...SUBMIT);
  const supervisor = work.start([...WORK, "1"]);
  const [first = 0] = await waitForPids(1);
  process.kill(first, "SIGTERM");
  await supervisor.waitFor(/\[1\] SIGTERM: finishing running items/);
  work.write("go", "");
  await supervisor.waitFor(/process 1 exited; restarting it/);
  await waitForPids(2);
  supervisor.signal("SIGTERM");
  const { code, stderr } = await supervisor.ended;
  expect(code, stderr).toBe(0);
  expect(stderr).toContain("stopped: 0 deaths of 1 process");
});
