/**
 * A batch of one chunk runs inline in the process that submitted it, however slow the store or the
 * worker is.
 */
import { hash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { createMemoryStore } from "../../adapters/memory/store.ts";
import { sleep } from "../../ports/clock.ts";
import type { Source } from "../../ports/source.ts";
import { STORE_VERBS } from "../../ports/store/store-verbs.ts";
import type { Store } from "../../ports/store/store.ts";
import { SeededRandom } from "../../testing/world/seeded-random.ts";
import { MortalClock, VirtualTime } from "../../testing/world/virtual-clock.ts";
import { definePipeline } from "../pipeline/pipeline.ts";
import { Engine, type StartOptions } from "./engine.ts";

const REPETITIONS = 50;
const SLOW_MS = 200;
const HOUR_MS = 3_600_000;

/** Three items in one chunk, as a file would hold them. */
const SOURCE: Source<number> = {
  kind: "three",
  async *slice() {
    yield { items: 3, locator: "all", cursor: "end" };
  },
  read: async (locators) => locators.map(() => ({ count: 3, at: (position) => position })),
};

interface Played {
  /** The result of each plan of a small batch. */
  readonly inline: readonly string[];
  readonly handled: number;
  readonly state: string;
}

/** Every store call takes a random time, before and after it does its work. */
async function play(seed: number, options: StartOptions): Promise<Played> {
  const time = new VirtualTime();
  const clock = new MortalClock(time);
  const random = new SeededRandom(seed);
  const store = createMemoryStore({ clock, sha256: (text) => hash("sha256", text) });
  const inline: string[] = [];
  const slow: Record<string, unknown> = { ...store };
  for (const verb of STORE_VERBS) {
    const call = store[verb] as (...args: unknown[]) => Promise<{ kind: string }>;
    slow[verb] = async (...args: unknown[]) => {
      await sleep(clock, random.next() * SLOW_MS);
      const answer = await call(...args);
      if (verb === "planInline") inline.push(answer.kind);
      await sleep(clock, random.next() * SLOW_MS);
      return answer;
    };
  }
  let handled = 0;
  const pipeline = definePipeline({
    name: "small",
    source: () => SOURCE,
    process: async () => {
      handled++;
    },
  });
  let state = "";
  const act = async (): Promise<void> => {
    const parts = { clock, random: new SeededRandom(seed), ...options };
    const engine = await Engine.start(slow as unknown as Store, parts);
    const batch = await engine.submit(pipeline, "input");
    ({ state } = await batch.wait());
    await engine.close();
  };
  let isOver = false;
  const acted = act().finally(() => (isOver = true));
  await time.run(() => isOver, HOUR_MS);
  await acted;
  return { inline, handled, state };
}

describe.each([{ work: true }, { work: "submitted" }] as const)("an engine with %o", (options) => {
  test(`leases a small batch in the commit that plans it, ${REPETITIONS} times of ${REPETITIONS}`, async () => {
    for (let seed = 0; seed < REPETITIONS; seed++) {
      const played = await play(seed, options);
      expect(played, `seed ${seed}`).toEqual({
        inline: ["leased"],
        handled: 3,
        state: "succeeded",
      });
    }
  });
});
