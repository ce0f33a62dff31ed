/**
 * Rate: every site is asked at most as often as it allows, in any window of time, whatever else
 * runs; so a portal with a known limit never has to refuse.
 */
import type { PortalRequest } from "../portals/request-log.ts";
import { type DrillReport, type DrillSize, listSome } from "./drill.ts";
import { Stage } from "./stage.ts";

/** The portals' limits, and how much of them is used. */
const ALLOWED = { perSecond: 5, burst: 10 };

export async function drillRate(size: DrillSize): Promise<DrillReport> {
  const stage = await Stage.open({ ...size, profile: "demo" });
  try {
    await stage.ingest();
    const log = await stage.portals.readLog();
    const bySite = Map.groupBy(log, ({ site }) => site);
    const refused = log.filter(({ status }) => status === 429);
    const crowded = [...bySite].flatMap(([site, requests]) => findCrowd(site, requests));
    return {
      seen: [
        `${log.length} requests to ${bySite.size} sites, ${refused.length} refused`,
        `at most ${Math.max(...[...bySite.values()].map(countDensest))} requests to a site in any second`,
      ],
      faults: [
        ...listSome(
          "429 for",
          refused.map(({ site, path }) => site + path),
        ),
        ...listSome("too many at once", crowded),
      ],
    };
  } finally {
    await stage.close();
  }
}

/** Every window that begins and ends with a request; no other window can hold more. */
function findCrowd(site: string, requests: readonly PortalRequest[]): string[] {
  const times = requests.map(({ atMs }) => atMs);
  const found: string[] = [];
  for (const [first, from] of times.entries()) {
    for (const [nth, to] of times.slice(first).entries()) {
      const allowed = ALLOWED.burst + (ALLOWED.perSecond * (to - from)) / 1_000;
      if (nth + 1 > allowed) found.push(`${nth + 1} requests to ${site} in ${to - from} ms`);
    }
  }
  return found;
}

function countDensest(requests: readonly PortalRequest[]): number {
  return Math.max(
    ...requests.map(
      ({ atMs }) => requests.filter((one) => one.atMs >= atMs && one.atMs < atMs + 1_000).length,
    ),
  );
}
