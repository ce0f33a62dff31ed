/** Many lanes over several processes: never two batches of one lane at once, and all in order. */
import { DatabaseSync } from "node:sqlite";
import { join } from "node:path";
import { expect } from "vitest";
import { Fleet, type Order } from "./fleet.ts";

const PROCESSES = 4;
const ITEMS = 3;

export async function checkLanes(lanes: number, batchesPerLane: number): Promise<void> {
  const fleet = await Fleet.start(PROCESSES);
  const watch = watchActive(fleet);
  try {
    const orders = Array.from({ length: batchesPerLane }, (_, n) =>
      Array.from(
        { length: lanes },
        (_unused, lane): Order => ({
          pipeline: (n + lane) % 2 === 0 ? "owned" : "sourced",
          lane: `lane-${lane}`,
          items: ITEMS,
        }),
      ),
    ).flat();
    // One more process submits its share and dies: its batches must not need it.
    const doomed = await fleet.add();
    const submitters = [...fleet.members];
    const share = Math.ceil(orders.length / submitters.length);
    const submitted = await Promise.all(
      submitters.map((member, at) =>
        member.submit(orders.slice(at * share, (at + 1) * share), { thenDie: member === doomed }),
      ),
    );
    for (const id of submitted.flat()) {
      const ended = await (await fleet.engine.get(id)).wait();
      expect(ended).toMatchObject({ state: "succeeded", counts: { succeeded: ITEMS } });
    }
    watch.stop();
    await fleet.close();
    expect(submitted.flat()).toHaveLength(lanes * batchesPerLane);
    await checkRecords(fleet);
    checkLines(fleet);
    expect(watch.most).toBe(1);
    expect(watch.looks).toBeGreaterThan(10);
  } finally {
    watch.stop();
    await fleet.dispose();
  }
}

/** Polls how many active batches a lane has at most. */
function watchActive({ folder }: Fleet) {
  const database = new DatabaseSync(join(folder, "store.db"), { readOnly: true });
  const count = database.prepare(
    "SELECT coalesce(max(n), 0) AS n FROM (SELECT count(*) AS n FROM batch WHERE active = 1 GROUP BY lane)",
  );
  const watch = {
    most: 0,
    looks: 0,
    stop: () => {
      clearInterval(timer);
      if (database.isOpen) database.close();
    },
  };
  const timer = setInterval(() => {
    watch.looks++;
    watch.most = Math.max(watch.most, (count.get() as { n: number }).n);
  }, 5);
  return watch;
}

/** Starts and releases of a lane alternate, in the order of its submissions. */
async function checkRecords(fleet: Fleet): Promise<void> {
  const records = await fleet.readRecords();
  const lanes = new Map<string, { submitted: string[]; turns: string[] }>();
  const laneOf = new Map<string, string>();
  for (const { type, batch, data } of records) {
    if (type === "batch.submitted") {
      const lane = data["lane"] as string;
      laneOf.set(batch, lane);
      const known = lanes.get(lane) ?? { submitted: [], turns: [] };
      lanes.set(lane, known);
      known.submitted.push(batch);
    }
    if (type === "batch.started" || type === "batch.released") {
      lanes.get(laneOf.get(batch) ?? "")?.turns.push(`${type} ${batch}`);
    }
  }
  for (const { submitted, turns } of lanes.values()) {
    expect(turns).toEqual(
      submitted.flatMap((batch) => [`batch.started ${batch}`, `batch.released ${batch}`]),
    );
  }
}

/** The handlers' lines agree: the batches of a lane do not overlap. */
function checkLines(fleet: Fleet): void {
  for (const [, lines] of Map.groupBy(fleet.readLines(), ({ lane }) => lane)) {
    const turns = lines.map(({ batch }) => batch).filter((batch, at, all) => batch !== all[at - 1]);
    expect(turns).toEqual([...new Set(turns)]);
  }
}
