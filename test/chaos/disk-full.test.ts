/**
 * The disk is full for a while. Workers say so, wait, and go on when there is space again; whoever
 * asks for something is told in time; nothing that was reported is lost.
 */
import { afterEach, expect, test, type TestContext } from "vitest";
import { SmallDisk } from "../support/small-disk.ts";
import { findFaults } from "./black-box/find-faults.ts";
import { Crew, type CrewOptions, type Member } from "./crew.ts";

const STORE = "disk/store.db";
const MIB = 1_048_576;
/** Less than the batch needs. Not every commit is refused then: a small one may still fit. */
const TIGHT_BYTES = 3 * MIB;
const ROOMY_BYTES = 64 * MIB;
const OPTIONS = { workMs: 20, ballastChars: 2_000, mixed: true, store: STORE };

let crew: Crew;
afterEach(() => crew.dispose());

/** A crew whose store is on a disk of its own. */
function mountDisk(context: TestContext, bytes: number, options: CrewOptions): SmallDisk {
  crew = new Crew({ ...OPTIONS, ...options });
  const disk = SmallDisk.mount(crew.work.at("disk"), bytes);
  if (typeof disk === "string") return context.skip(disk);
  crew.onDispose(() => disk.unmount());
  return disk;
}

/** Both are at work before the disk is full: whoever comes later may be refused. */
async function startBoth(): Promise<readonly [Member, Member]> {
  const worker = crew.start("work");
  await worker.running.waitFor(/working on/);
  return [worker, crew.start("run")];
}

/** What is left of the batch is done, and all is as promised. */
async function finish(): Promise<void> {
  await crew.onlooker.waitForEnd();
  expect(findFaults(await crew.gather())).toEqual([]);
}

test("workers on a full disk say so, wait, and go on by themselves when there is space", async (context) => {
  const disk = mountDisk(context, TIGHT_BYTES, { items: 2_000, events: "events.jsonl" });
  const members = await startBoth();
  for (const { running } of members) await running.waitFor(/is full/);
  // Their leases may run out before there is space again.
  for (const { name } of members) crew.disturbed.add(name);
  await crew.onlooker.look({ withResults: true });
  disk.resize(ROOMY_BYTES);
  await finish();
});

test("what is killed, stopped or started on a full disk loses nothing: with space the same command ends the batch", async (context) => {
  const disk = mountDisk(context, TIGHT_BYTES, { items: 2_000, concurrency: 16 });
  const [stopped, killed] = await startBoth();
  await stopped.running.waitFor(/is full/);
  crew.disturbed.add(stopped.name);
  await crew.kill(killed);
  await crew.stop([stopped]);
  const started = crew.start("run");
  crew.disturbed.add(started.name);
  await started.running.waitFor(/is full/);
  await crew.onlooker.look({ withResults: true });
  disk.resize(ROOMY_BYTES);
  // It was refused, or its first commit fitted and it has waited: the same command comes again.
  crew.start("run");
  await finish();
});

// So little that not even the memory that processes share fits, or that half of the tables do.
for (const kib of [16, 96]) {
  test(`a store that is made on a disk of ${kib} KiB says that it is full, and is whole once there is space`, async (context) => {
    const disk = mountDisk(context, kib * 1_024, { items: 300, workMs: 0, concurrency: 16 });
    const first = crew.start("run");
    const { code, stdout, stderr } = await first.running.ended;
    expect(stdout, stderr).toContain('"code":"STORE_FULL"');
    expect(code).toBe(1);
    disk.resize(ROOMY_BYTES);
    crew.start("run");
    await finish();
  });
}

test("a limit on the size of files ends the process with the file's name, and loses nothing", async () => {
  crew = new Crew({ ...OPTIONS, items: 1_500, concurrency: 16 });
  const limited = crew.start("run", { before: ["prlimit", `--fsize=${2 * MIB}`] });
  crew.disturbed.add(limited.name);
  const { code, stdout, stderr } = await limited.running.ended;
  expect(stdout, stderr).toContain('"code":"STORE_IO_ERROR"');
  expect(stderr).toContain(STORE);
  expect(code).toBe(70);
  await crew.onlooker.look({ withResults: true });
  crew.start("run");
  await finish();
});
