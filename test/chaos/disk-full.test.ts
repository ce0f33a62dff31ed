/**
 * The disk is full for a while. Workers report it, wait, and continue when there is space again.
 * Other commands are told in time. No reported outcome is lost.
 */
import { afterEach, expect, test, type TestContext } from "vitest";
import { SmallDisk } from "../support/small-disk.ts";
import { findFaults } from "./black-box/find-faults.ts";
import { Crew, type CrewOptions, type Member } from "./crew.ts";

const STORE = "disk/store.db";
const MIB = 1_048_576;
/** Less than the batch needs. A small commit may still fit. */
const TIGHT_BYTES = 3 * MIB;
const ROOMY_BYTES = 64 * MIB;
const OPTIONS = { workMs: 20, ballastChars: 2_000, mixed: true, store: STORE };

let crew: Crew;
afterEach(() => crew.dispose());

/** A crew whose store is on its own disk. */
function mountDisk(context: TestContext, bytes: number, options: CrewOptions): SmallDisk {
  crew = new Crew({ ...OPTIONS, ...options });
  const disk = SmallDisk.mount(crew.work.at("disk"), bytes);
  if (typeof disk === "string") return context.skip(disk);
  crew.onDispose(() => disk.unmount());
  return disk;
}

/** Both work before the disk is full: a later process may be refused. */
async function startBoth(): Promise<readonly [Member, Member]> {
  const worker = crew.start("work");
  await worker.running.waitFor(/working on/);
  return [worker, crew.start("run")];
}

/** The rest of the batch runs, and every promise holds. */
async function finish(): Promise<void> {
  await crew.onlooker.waitForEnd();
  expect(findFaults(await crew.gather())).toEqual([]);
}

test("workers on a full disk report it, wait, and continue when there is space", async (context) => {
  const disk = mountDisk(context, TIGHT_BYTES, { items: 2_000, events: "events.jsonl" });
  const members = await startBoth();
  for (const { running } of members) await running.waitFor(/is full/);
  // Their leases may expire before there is space again.
  for (const { name } of members) crew.disturbed.add(name);
  await crew.onlooker.look({ withResults: true });
  disk.resize(ROOMY_BYTES);
  await finish();
});

test("a process that is killed, stopped or started on a full disk loses nothing: with space the same command ends the batch", async (context) => {
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
  // It was refused, or its first commit fitted and it has waited: the same command runs again.
  crew.start("run");
  await finish();
});

// So little that the shared memory does not fit, or only half of the tables.
for (const kib of [16, 96]) {
  test(`creating a store on a disk of ${kib} KiB reports the full disk, and succeeds when there is space`, async (context) => {
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

test("a limit on the size of files ends the process with the name of the file and loses nothing", async () => {
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
