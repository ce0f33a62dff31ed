/**
 * One batch under every fault at once: kills, processes stopped past their leases and in the middle
 * of commits, clock jumps, a disk that is full for a while: `npm run test:long`.
 */
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { SeededRandom } from "../../src/testing/world/seeded-random.ts";
import { findFaults } from "../chaos/black-box/find-faults.ts";
import { Crew, isOverWithin, LEASE_MS } from "../chaos/crew.ts";
import { pick, shuffle } from "../chaos/draw.ts";
import { type Jump, MovableClock } from "../support/movable-clock.ts";
import { SmallDisk } from "../support/small-disk.ts";

const SEED = Number(process.env["SLUICE_SEED"] ?? 1);
const ITEMS = 300_000;
const WORKERS = 4;
const BEAT_MS = 1_500;
const DISK_BYTES = 512 * 1_048_576;
const JUMPS: readonly Jump[] = ["+0", "+1h", "-1h", "+10y"];
/** Exits that are no fault: a process that starts on a full disk reports it and exits. */
const MAY_END = /^error STORE_(FULL|BUSY):/m;

interface Scene {
  readonly crew: Crew;
  readonly disk: SmallDisk;
  readonly clocks: readonly MovableClock[];
  readonly random: SeededRandom;
  readonly done: Map<string, number>;
}

type Deed = (scene: Scene) => Promise<void>;

async function killOne({ crew, random }: Scene): Promise<void> {
  const victim = pick(crew.members, random);
  await crew.kill(victim);
  crew.restart(victim);
}

/** A power cut: no process is left. */
async function killAll({ crew }: Scene): Promise<void> {
  const { members } = crew;
  await Promise.all(members.map((member) => crew.kill(member)));
  for (const member of members) crew.restart(member);
}

/**
 * A process is stopped anywhere, even in the middle of a commit: then no other can write until it
 * continues.
 */
async function freezeOne({ crew, random }: Scene): Promise<void> {
  const sleeper = pick(crew.members, random);
  crew.freeze(sleeper);
  await delay(random.next() * 2 * LEASE_MS);
  crew.wake(sleeper);
}

async function jumpOne({ clocks, random }: Scene): Promise<void> {
  pick(clocks, random).jump(pick(JUMPS, random));
  await delay(0);
}

async function fillDisk({ crew, disk, random }: Scene): Promise<void> {
  for (const { name } of crew.members) crew.disturbed.add(name);
  disk.fill();
  await delay(random.next() * 2 * LEASE_MS);
  // Some are killed on a full disk, and their successors find it full.
  if (random.next() < 0.5) {
    const victim = pick(crew.members, random);
    await crew.kill(victim);
    crew.disturbed.add(crew.restart(victim).name);
    await delay(random.next() * LEASE_MS);
  }
  disk.free();
}

const DEEDS: readonly (readonly [string, number, Deed])[] = [
  ["kill", 10, killOne],
  ["jump", 6, jumpOne],
  ["freeze", 4, freezeOne],
  ["full disk", 2, fillDisk],
  ["kill all", 1, killAll],
];
const LOTS = DEEDS.flatMap(([name, lots, deed]) =>
  Array.from({ length: lots }, () => ({ name, deed })),
);

test("a batch under kills, stopped processes, clock jumps and a full disk is accounted for to the last item", async (context) => {
  const crew = new Crew({
    items: ITEMS,
    workMs: 12,
    mixed: true,
    ballastChars: 100,
    store: "disk/store.db",
    events: "disk/events.jsonl",
  });
  try {
    const disk = SmallDisk.mount(crew.work.at("disk"), DISK_BYTES);
    if (typeof disk === "string") return context.skip(disk);
    crew.onDispose(() => disk.unmount());
    const clocks = Array.from(
      { length: WORKERS },
      (_, at) => new MovableClock(crew.work.at(`clock-${at}`)),
    );
    const scene = { crew, disk, clocks, random: new SeededRandom(SEED), done: new Map() };
    crew.start("run");
    for (const { env } of clocks) crew.start("work", { env });
    await crew.onlooker.findBatch();
    await disturb(scene);
    const evidence = await crew.gather();
    const { runs, letters } = evidence;
    const poison = letters.filter(({ code }) => code === "POISON").length;
    console.log(
      `${ITEMS} items, seed ${SEED}: ${[...scene.done].map(([name, count]) => `${count} x ${name}`).join(", ")}; ${runs.length - ITEMS} starts beyond the first, ${poison} items convicted as poison`,
    );
    expect(findFaults(evidence), `seed ${SEED}`).toEqual([]);
    expect(scene.done.size).toBe(DEEDS.length);
  } finally {
    await crew.dispose();
  }
});

/** One fault after the other until the batch has ended. */
async function disturb(scene: Scene): Promise<void> {
  const { crew, random, done } = scene;
  const ended = crew.onlooker.waitForEnd();
  let lots: (typeof LOTS)[number][] = [];
  let looks = 0;
  while (!(await isOverWithin(ended, BEAT_MS))) {
    crew.supervise(MAY_END);
    if (lots.length === 0) lots = shuffle(LOTS, random);
    const { name, deed } = lots.pop()!;
    await deed(scene);
    done.set(name, (done.get(name) ?? 0) + 1);
    if (++looks % 10 === 0) await crew.onlooker.look({ withResults: true });
  }
}
