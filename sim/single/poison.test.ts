/** Items that kill their node on every run: the engine finds them, and blames no other item. */
import { describe, expect, test } from "vitest";
import { type Batch, countAll } from "../../src/adapters/memory/state.ts";
import { isEnded } from "../../src/core/batch/batch.ts";
import { noFaults } from "../faults.ts";
import { type History, playRight, type Plot } from "./history.ts";
import { startEngine } from "../start-engine.ts";
import { Witness } from "./witness.ts";
import { type Behaviour, Workload } from "./workload.ts";
import { type Program, World } from "../world.ts";

const SEEDS = Array.from({ length: 12 }, (_, i) => i + 1);

function makePlot(items: number, poison: readonly number[], changes: Partial<Plot>): Plot {
  const behaviours = Array.from(
    { length: items },
    (_, n): Behaviour => ({
      does: poison.includes(n) ? "kill" : n % 5 === 1 ? "return" : "succeed",
    }),
  );
  return {
    seed: 1,
    behaviours,
    supply: "ranged",
    chunkSize: 3,
    concurrency: 4,
    restarts: 20,
    faults: noFaults,
    ...changes,
  };
}

async function readConvicted({ world, batch }: History): Promise<unknown[]> {
  const page = { step: 0, afterItem: -1, limit: 100, filter: {} };
  const letters = await world.store.readDeadLetters(batch?.submission.id ?? "", page);
  return letters.map(({ item, code, deaths }) => ({ item, code, deaths }));
}

const countDeaths = ({ world }: History): number =>
  world.nodes.filter(({ alive }) => !alive).length;

describe("an item that kills its node every time it starts", () => {
  for (const [what, changes] of [
    ["with two nodes", {}],
    ["with one node", { helpers: 0 }],
    ["among 16 at once", { concurrency: 16, chunkSize: 16 }],
    ["in a chunk of its own", { chunkSize: 1 }],
    ["one at a time", { concurrency: 1 }],
    ["frozen from an iterable", { supply: "iterable" }],
    ["in the last chunk", { chunkSize: 5 }],
    ["handled a chunk at a time", { byChunk: true, chunkSize: 6 }],
  ] as const satisfies [string, Partial<Plot>][]) {
    test(`becomes a dead letter after exactly 3 deaths, and all others succeed: ${what}`, async () => {
      for (const seed of SEEDS) {
        const plot = makePlot(12, [7], { ...changes, seed });
        const history = await playRight(plot, what);
        expect(await readConvicted(history), `seed ${seed}`).toEqual([
          { item: 7, code: "POISON", deaths: 3 },
        ]);
        expect(countDeaths(history), `seed ${seed}`).toBe(3);
        expect(history.batch?.state).toBe("completed_with_errors");
        expect(countAll(history.batch as Batch)).toMatchObject({ succeeded: 11, failed: 1 });
      }
    });
  }

  test("two of them in different chunks are both found, and all others succeed", async () => {
    for (const seed of SEEDS) {
      const history = await playRight(makePlot(18, [4, 13], { seed }), "two chunks");
      expect(await readConvicted(history), `seed ${seed}`).toEqual([
        { item: 4, code: "POISON", deaths: 3 },
        { item: 13, code: "POISON", deaths: 3 },
      ]);
      expect(countAll(history.batch as Batch)).toMatchObject({ succeeded: 16, failed: 2 });
      // Two deaths are shared; each further death belongs to one of the two items.
      expect(countDeaths(history), `seed ${seed}`).toBeLessThanOrEqual(6);
    }
  });

  test("two of them in one chunk, 16 at once, are both found, and all others succeed", async () => {
    for (const seed of SEEDS) {
      const plot = makePlot(40, [3, 11], { seed, chunkSize: 20, concurrency: 16 });
      const history = await playRight(plot, "one chunk");
      expect(await readConvicted(history), `seed ${seed}`).toEqual([
        { item: 3, code: "POISON", deaths: 3 },
        { item: 11, code: "POISON", deaths: 3 },
      ]);
      expect(countAll(history.batch as Batch)).toMatchObject({ succeeded: 38, failed: 2 });
    }
  });

  for (const nodes of [["n1"], ["n1", "n2"]]) {
    test(`has no effect on another pipeline of the same engine: ${nodes.length} nodes`, async () => {
      for (const seed of SEEDS) await playTwoPipelines(seed, nodes);
    });
  }
});

/** One pipeline with poison in it and one without, on the same engines. */
async function playTwoPipelines(seed: number, nodes: readonly string[]): Promise<void> {
  const world = new World({ seed });
  const common = { supply: "ranged", chunkSize: 3, concurrency: 4 } as const;
  const bad = makePlot(30, [2, 8, 11, 17, 20, 26], {}).behaviours;
  const good = makePlot(30, [], {}).behaviours;
  const workloads = [
    new Workload(world, { ...common, name: "bad", behaviours: bad }),
    new Workload(world, { ...common, name: "good", behaviours: good }),
  ];
  const witnesses = workloads.map((workload) => new Witness(world, workload));
  const program: Program = async (node) => {
    const engine = await startEngine(node);
    for (const workload of workloads) {
      await engine.submit(workload.makePipeline(node), "all", { key: "k" });
    }
  };
  world.listeners.push({
    onCommit: () => undefined,
    onCrash: ({ name }) => void world.time.after(200, () => world.boot(name, program)),
  });
  for (const name of nodes) world.boot(name, program);
  const { batches } = world.store.state;
  const isOver = (): boolean =>
    batches.size === 2 && [...batches.values()].every(({ state }) => isEnded(state));
  expect(await world.run(isOver, 120_000), world.trace.describe()).toBe(true);
  expect(
    witnesses.flatMap(({ problems }) => problems),
    world.trace.describe(),
  ).toEqual([]);
  const counts = new Map(
    [...batches.values()].map((batch) => [batch.submission.pipeline, countAll(batch)]),
  );
  expect(counts.get("bad"), `seed ${seed}`).toMatchObject({ succeeded: 24, failed: 6 });
  expect(counts.get("good"), `seed ${seed}`).toMatchObject({ succeeded: 30, failed: 0 });
}
