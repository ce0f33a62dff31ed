/** Tenants of a pipeline share workers by weight and time, in a real engine and in virtual time. */
import { describe, expect, test } from "vitest";
import { definePipeline, type Pipeline } from "../../../src/index.ts";
import { inVirtualTime, type World } from "../../../src/testing.ts";
import { numbers } from "./engine-rig.ts";

/** Many, because chunks that are leased ahead at the end do not count for any share. */
const ITEMS = 800;

interface Scene {
  readonly tenantOf: (lane: string) => string;
  readonly lanes: readonly string[];
  readonly weights?: { readonly [tenant: string]: number };
  /** How long an item of a tenant takes. */
  readonly itemMs?: (tenant: string) => number;
}

/** Two workers run all lanes. Returns how much handler time each tenant had when one was done. */
async function race(scene: Scene): Promise<Map<string, number>> {
  const { tenantOf, lanes, weights = {}, itemMs = () => 10 } = scene;
  const spent = new Map<string, number>();
  let frozen: Map<string, number> | null = null;
  const makePipeline = (world: World): Pipeline<number, Iterable<number>> =>
    definePipeline({
      name: "shared",
      share: { tenant: tenantOf, weights },
      chunkSize: 2,
      inlineItems: 0,
      concurrency: 4,
      process: async (_item: number, { lane }) => {
        const tenant = tenantOf(lane);
        await world.sleep(itemMs(tenant));
        spent.set(tenant, (spent.get(tenant) ?? 0) + itemMs(tenant));
      },
    }) as Pipeline<number, Iterable<number>>;
  await inVirtualTime({ engine: { leaseItemsMax: 16 } }, async (world) => {
    const shared = makePipeline(world);
    const engine = await world.startEngine({ work: false });
    const batches = [];
    for (const lane of lanes) batches.push(await engine.submit(shared, numbers(ITEMS), { lane }));
    for (let nth = 0; nth < 2; nth++) (await world.startEngine({ work: false })).work(shared);
    await Promise.any(batches.map((batch) => batch.wait()));
    frozen = new Map(spent);
    for (const batch of batches) expect((await batch.wait()).state).toBe("succeeded");
  });
  return frozen ?? new Map();
}

const ratio = (spent: Map<string, number>, a: string, b: string): number =>
  (spent.get(a) ?? 0) / (spent.get(b) ?? 0);

describe("while all tenants have work", () => {
  test("a tenant with three lanes gets as much as one with one lane", async () => {
    const spent = await race({
      tenantOf: (lane) => lane.split(".")[0] ?? lane,
      lanes: ["greedy.1", "greedy.2", "greedy.3", "modest"],
    });
    expect(ratio(spent, "greedy", "modest")).toBeGreaterThan(0.9);
    expect(ratio(spent, "greedy", "modest")).toBeLessThan(1.1);
  });

  test("a weight of 3 gets three times as much", async () => {
    const spent = await race({
      tenantOf: (lane) => lane,
      lanes: ["light", "heavy"],
      weights: { heavy: 3 },
    });
    expect(ratio(spent, "heavy", "light")).toBeGreaterThan(2.6);
    expect(ratio(spent, "heavy", "light")).toBeLessThan(3.4);
  });

  test("a tenant with slower items gets the same time, not the same number of items", async () => {
    const spent = await race({
      tenantOf: (lane) => lane,
      lanes: ["quick", "slow"],
      itemMs: (tenant) => (tenant === "slow" ? 40 : 10),
    });
    expect(ratio(spent, "slow", "quick")).toBeGreaterThan(0.8);
    expect(ratio(spent, "slow", "quick")).toBeLessThan(1.25);
  });
});

test("a tenant must be a text", async () => {
  const wrong = definePipeline({
    name: "wrong",
    share: { tenant: () => "" },
    process: (_item: number) => undefined,
  });
  await inVirtualTime({}, async (world) => {
    const engine = await world.startEngine();
    await expect(engine.submit(wrong, [1], { lane: "north" })).rejects.toMatchObject({
      code: "BAD_FUNCTION_RESULT",
      field: "share.tenant",
    });
  });
});
