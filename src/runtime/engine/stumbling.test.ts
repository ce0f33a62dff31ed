/** A store where one call fails with an unexpected error, under an engine. */
import { hash } from "node:crypto";
import { expect, test } from "vitest";
import { createMemoryStore } from "../../adapters/memory/store.ts";
import { SluiceError } from "../../core/base/errors.ts";
import { sleep } from "../../ports/clock.ts";
import type { Store } from "../../ports/store/store.ts";
import type { StoreVerb } from "../../ports/store/store-verbs.ts";
import { SeededRandom } from "../../testing/world/seeded-random.ts";
import { MortalClock, VirtualTime } from "../../testing/world/virtual-clock.ts";
import { Engine } from "./engine.ts";
import type { LogEntry } from "../system/log.ts";
import { definePipeline } from "../pipeline/pipeline.ts";

/** The calls that a worker's loops make. */
const VERBS = [
  "beat",
  "renew",
  "sweep",
  "draw",
  "readStops",
  "listUnsliced",
  "readPosition",
  "savePosition",
  "claim",
  "work",
  "plan",
  "readManifests",
] as const satisfies readonly StoreVerb[];

/** After a longer time the batch would be given up as stalled. */
const STUMBLES_MS = 180_000;
const HOUR_MS = 3_600_000;
/**
 * In that time a wait that grows up to a minute ends about 25 times; some loops have several waits.
 */
const CALLS_MAX = 150;

class Scene {
  readonly time = new VirtualTime();
  readonly clock = new MortalClock(this.time);
  readonly logs: LogEntry[] = [];
  readonly failures: unknown[] = [];
  readonly events: string[] = [];
  failure: Error | null = null;
  calls = 0;

  /**
   * An engine that slices, works under a rate and delivers events, on a store where one call may
   * fail.
   */
  async start(verb: StoreVerb): Promise<Engine> {
    const { clock } = this;
    const store = createMemoryStore({ clock, sha256: (text) => hash("sha256", text) });
    const call = store[verb] as (...args: unknown[]) => Promise<unknown>;
    const stumbling = (...args: unknown[]): Promise<unknown> => {
      if (this.failure === null) return call(...args);
      this.calls++;
      return Promise.reject(this.failure);
    };
    const log = (entry: LogEntry): void => void this.logs.push(entry);
    const shaky = { ...store, [verb]: stumbling } as unknown as Store;
    const engine = await Engine.start(shaky, { clock, random: new SeededRandom(1), log });
    engine.onFailure((error) => this.failures.push(error));
    engine.subscribe("audit", ({ type }) => void this.events.push(type));
    return engine;
  }

  async play(act: () => Promise<void>): Promise<void> {
    let isOver = false;
    const played = act().finally(() => (isOver = true));
    expect(await this.time.run(() => isOver, HOUR_MS)).toBe(true);
    await played;
  }
}

function makePipeline({ clock }: Scene) {
  return definePipeline({
    name: "stumbling",
    chunkSize: 5,
    rate: { perSecond: 5, burst: 5 },
    source: async function* () {
      for (let n = 0; n < 200; n++) {
        if (n % 10 === 0) await sleep(clock, 1_000);
        yield n;
      }
    },
    process: () => sleep(clock, 500),
  });
}

test.each(VERBS)(
  "when `%s` fails unexpectedly, nothing ends or spins, and work continues afterwards",
  async (verb) => {
    const scene = new Scene();
    const { clock } = scene;
    await scene.play(async () => {
      const engine = await scene.start(verb);
      const pipeline = makePipeline(scene);
      const batch = await engine.submit(pipeline, null);
      await sleep(clock, 5_000);
      scene.failure = new TypeError("cannot read properties of undefined");
      await sleep(clock, STUMBLES_MS);
      expect(scene.calls).toBeGreaterThan(0);
      expect(scene.calls).toBeLessThan(CALLS_MAX);
      const told = scene.logs.filter(({ event }) => event.endsWith(".unexpected_error"));
      expect(told[0]).toMatchObject({ error: scene.failure });
      scene.failure = null;
      while ((await batch.progress()).state !== "succeeded") await sleep(clock, 1_000);
      while (!scene.events.includes("batch.ended")) await sleep(clock, 1_000);
      expect(scene.failures).toEqual([]);
      await engine.close();
    });
  },
);

test.each(VERBS)(
  "a missing schema when `%s` is called ends the work, and is reported",
  async (verb) => {
    const scene = new Scene();
    await scene.play(async () => {
      const engine = await scene.start(verb);
      await engine.submit(makePipeline(scene), null);
      await sleep(scene.clock, 5_000);
      scene.failure = new SluiceError("STORE_MISSING", "the schema is not there");
      while (scene.failures.length === 0) await sleep(scene.clock, 1_000);
      expect(scene.failures).toEqual([scene.failure]);
      await engine.close().catch(() => undefined);
    });
  },
);
