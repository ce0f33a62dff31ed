/**
 * Plays the hour that a seed draws, or the part of it that a cut keeps. In a third of all seeds the
 * store is the SQLite adapter; the reference model then follows it call by call, so that the
 * checkers have something to read and each answer is compared.
 */
import type { Host } from "../src/adapters/sql/host.ts";
import { openSqliteStore } from "../src/adapters/sqlite/store.ts";
import type { Clock } from "../src/ports/clock.ts";
import { SeededRandom } from "../src/testing/world/seeded-random.ts";
import { type ShadowedStore, shadowStore } from "./shadow-store.ts";
import { Coverage, nameJudged } from "./swarm/coverage.ts";
import { applyCut, type Cut, WHOLE } from "./traffic/cut.ts";
import { drawHour } from "./traffic/draw-hour.ts";
import { playTraffic, type TrafficOptions } from "./traffic/traffic.ts";
import { nameCall } from "./faults.ts";
import type { World } from "./world.ts";

export interface Played {
  readonly seed: number;
  readonly problems: readonly string[];
  readonly world: World;
  /** Calls of the store. */
  readonly calls: number;
  /** Faults of calls, and happenings. */
  readonly faults: number;
  /** Places where calls met faults. */
  readonly places: readonly string[];
  readonly coverage: Coverage;
}

/** What the nodes of a world work on. */
export const WORLD_STORES = ["memory", "sqlite"] as const;
export type WorldStore = (typeof WORLD_STORES)[number];

export interface PlayOptions extends Pick<TrafficOptions, "wrapStore"> {
  /** Default: the seed's own. */
  readonly store?: WorldStore;
  /** Ends the play with its first problem. */
  readonly firstOnly?: boolean;
}

const SQLITE_EVERY = 3;
/** Nodes of the world are not processes, so the store never sees one as gone. */
const HOST: Host = { bootId: "boot", process: "here", isGone: () => false };

export function pickStore(seed: number): WorldStore {
  return seed % SQLITE_EVERY === 0 ? "sqlite" : "memory";
}

export async function playSeed(
  seed: number,
  cut: Cut = WHOLE,
  { store = pickStore(seed), firstOnly = false, ...options }: PlayOptions = {},
): Promise<Played> {
  if (store === "sqlite") return playOnSqlite(seed, cut, firstOnly);
  return play(seed, cut, { ...options, endsWhen: (problems) => firstOnly && problems.length > 0 });
}

async function playOnSqlite(seed: number, cut: Cut, firstOnly: boolean): Promise<Played> {
  const clock = new StoreClock();
  const random = new SeededRandom(seed);
  const sqlite = await openSqliteStore(":memory:", { clock, random, host: HOST });
  let shadowed: ShadowedStore | null = null;
  try {
    const played = await play(seed, cut, {
      embedded: true,
      wrapStore: (model, worldClock) => {
        clock.follow(worldClock);
        shadowed = shadowStore(model, sqlite, { answers: "shadow" });
        return shadowed.store;
      },
      endsWhen: (problems) =>
        firstOnly && problems.length + (shadowed?.differences.length ?? 0) > 0,
    });
    // Assigned in the callback, which the compiler does not follow.
    const differences = await (shadowed as ShadowedStore | null)?.compare();
    const problems = (differences ?? []).map((problem) => `as the model: ${problem}`);
    return { ...played, problems: [...played.problems, ...problems] };
  } finally {
    await sqlite.close();
  }
}

/**
 * The store's clock. It exists before its world does, and has no timers: the only connection of a
 * file waits for nobody.
 */
class StoreClock implements Clock {
  #world: Clock | null = null;

  follow(world: Clock): void {
    this.#world = world;
  }

  /** Until the world exists, the clock stands at the start time. */
  wallMs(): number {
    return this.#world?.wallMs() ?? 0;
  }

  monotonicMs(): number {
    return this.#world?.monotonicMs() ?? 0;
  }

  after(): () => void {
    return () => undefined;
  }

  turn(): Promise<void> {
    return Promise.resolve();
  }
}

async function play(
  seed: number,
  cut: Cut,
  options: Pick<TrafficOptions, "wrapStore" | "embedded" | "endsWhen">,
): Promise<Played> {
  const coverage = new Coverage();
  const places: string[] = [];
  let happened = 0;
  const hour = drawHour(seed, cut.limits?.length !== 0);
  const { world, problems, judged } = await playTraffic(applyCut(hour, cut), {
    ...options,
    onStage: (stage) => {
      coverage.watch(stage);
      const count = stage.onHappening;
      stage.onHappening = (what) => {
        happened++;
        count(what);
      };
      stage.world.listeners.push({
        onFault: (_k, _n, _v, call) => void places.push(nameCall(call)),
      });
    },
  });
  for (const [what, times] of judged) coverage.add(nameJudged(what), times);
  const faults = places.length + happened;
  return { seed, problems, world, calls: world.calls, faults, places, coverage };
}
