/**
 * Several processes emit and several consume. One is killed in every interval and restarted. The
 * topic has each message once, and the consumers got each of them.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { openSqliteStore } from "../../src/adapters/sqlite/store.ts";
import type { Store } from "../../src/ports/store/store.ts";
import { Engine } from "../../src/runtime/engine/engine.ts";
import { sleep } from "../../src/ports/clock.ts";
import { systemClock } from "../../src/runtime/system/system-clock.ts";
import { systemRandom } from "../../src/runtime/system/system-random.ts";
import { SeededRandom } from "../../src/testing/world/seeded-random.ts";
import {
  emitting,
  GROUP,
  type MessageOptions,
  readNumber,
  TOPIC,
} from "../support/message-process.ts";
import { isOverWithin } from "./crew.ts";
import { shuffle } from "./draw.ts";
import { Member } from "./fleet.ts";

export interface MessagesOptions {
  readonly items: number;
  readonly killEveryMs: number;
  readonly killsMin: number;
  readonly seed: number;
}

const PROGRAM = fileURLToPath(new URL("../support/message-process.ts", import.meta.url));
const ROLES = ["emit", "emit", "emit", "consume", "consume"] as const;
const PAGE = 10_000;
const LOOK_MS = 500;

export async function checkMessages(options: MessagesOptions): Promise<void> {
  const { items, seed } = options;
  const folder = mkdtempSync(join(tmpdir(), "sluice-messages-"));
  const path = join(folder, "store.db");
  const store = await openSqliteStore(path, {
    clock: systemClock,
    random: systemRandom,
    synchronous: "normal",
  });
  const crew = new Kin(folder, path);
  try {
    const engine = await Engine.start(store, { work: false });
    const handle = await engine.submit(emitting, Array.from({ length: items }).keys());
    for (const role of ROLES) crew.start(role);
    const ended = waitForAll(handle, store);
    await killOneByOne(crew, ended, options);
    const { counts } = await handle.wait();
    await engine.close();
    await crew.close();
    expect(counts).toMatchObject({ succeeded: items, failed: 0 });
    const emitted = await countEmitted(store, items);
    const consumed = countConsumed(folder, items);
    const repeated = sum(consumed) - items;
    console.log(
      `${items} messages, seed ${seed}: ${crew.kills.emit} kills of emitters and ${crew.kills.consume} of consumers, ${repeated} messages came again`,
    );
    expect(
      listNot(emitted, (times) => times === 1),
      `seed ${seed}: not emitted once`,
    ).toEqual([]);
    expect(
      listNot(consumed, (times) => times >= 1),
      `seed ${seed}: not consumed`,
    ).toEqual([]);
    expect(crew.kills.emit + crew.kills.consume).toBeGreaterThanOrEqual(options.killsMin);
    expect(crew.kills.consume).toBeGreaterThan(0);
    // Otherwise the kills have shown nothing about repeated messages.
    expect(repeated).toBeGreaterThan(0);
  } finally {
    await crew.dispose();
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

type Role = MessageOptions["role"];

/** The processes, each in its role. */
class Kin {
  readonly kills = { emit: 0, consume: 0 };
  readonly #folder: string;
  readonly #store: string;
  readonly #members = new Map<Member, Role>();
  #starts = 0;

  constructor(folder: string, store: string) {
    this.#folder = folder;
    this.#store = store;
  }

  get members(): readonly Member[] {
    return [...this.#members.keys()];
  }

  start(role: Role): void {
    const log = join(this.#folder, `seen-${++this.#starts}`);
    const options: MessageOptions = { role, store: this.#store, log };
    this.#members.set(new Member(options, PROGRAM), role);
  }

  /** Only processes that have begun: the others have nothing to lose. */
  async replace(member: Member): Promise<void> {
    const role = this.#members.get(member) ?? "emit";
    await member.ready;
    // It must not have ended for any other reason.
    expect(member.isAlive).toBe(true);
    await member.kill();
    this.#members.delete(member);
    this.kills[role]++;
    this.start(role);
  }

  async close(): Promise<void> {
    for (const member of this.members) {
      await member.ready;
      expect(await member.close()).toBe(0);
    }
  }

  async dispose(): Promise<void> {
    for (const member of this.members) if (member.isAlive) await member.kill();
  }
}

/** Each process once per round, each time in another order. */
async function killOneByOne(
  crew: Kin,
  ended: Promise<unknown>,
  { killEveryMs, seed }: MessagesOptions,
): Promise<void> {
  const random = new SeededRandom(seed);
  let round: Member[] = [];
  while (!(await isOverWithin(ended, killEveryMs))) {
    if (round.length === 0) round = shuffle(crew.members, random);
    const victim = round.pop();
    if (victim !== undefined) await crew.replace(victim);
  }
}

/** Every item has ended, and every message is acknowledged. */
async function waitForAll(handle: { wait(): Promise<unknown> }, store: Store): Promise<void> {
  await handle.wait();
  for (;;) {
    const [topic] = await store.listTopics();
    const lag = topic?.groups.find(({ group }) => group === GROUP)?.lag ?? 1;
    if (lag === 0) return;
    await sleep(systemClock, LOOK_MS);
  }
}

/** How often each item's message is in the topic. */
async function countEmitted(store: Store, items: number): Promise<Uint32Array> {
  const times = new Uint32Array(items);
  for (let after = 0; ; ) {
    const page = await store.readMessages(TOPIC, after, PAGE);
    for (const { id, body } of page)
      note(times, readNumber({ id, ...(JSON.parse(body) as { n: unknown }) }));
    const last = page.at(-1);
    if (last === undefined) return times;
    after = last.position;
  }
}

/** How often consumers got each of them. */
function countConsumed(folder: string, items: number): Uint32Array {
  const times = new Uint32Array(items);
  for (const name of readdirSync(folder).filter((one) => one.startsWith("seen-"))) {
    const bytes = readFileSync(join(folder, name));
    for (let at = 0; at + 4 <= bytes.length; at += 4) note(times, bytes.readUInt32LE(at));
  }
  return times;
}

function note(times: Uint32Array, item: number): void {
  const known = times[item];
  if (known === undefined) throw new Error(`there is no item ${item}`);
  times[item] = known + 1;
}

function sum(times: Uint32Array): number {
  return times.reduce((total, one) => total + one, 0);
}

/** The first of the wrong ones. */
function listNot(times: Uint32Array, isRight: (times: number) => boolean): string[] {
  const wrong: string[] = [];
  for (const [item, one] of times.entries()) {
    if (!isRight(one)) wrong.push(`item ${item}: ${one} times`);
    if (wrong.length >= 10) break;
  }
  return wrong;
}
