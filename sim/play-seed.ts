/** Plays the hour that a seed draws, or the part of it that a cut keeps. */
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

export async function playSeed(
  seed: number,
  cut: Cut = WHOLE,
  options: Pick<TrafficOptions, "wrapStore"> = {},
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
