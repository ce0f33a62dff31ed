/**
 * Deliveries that are given up: each is kept once, never lost, and never blocks the next records,
 * whichever node dies at whichever call.
 */
import { expect, test } from "vitest";
import { isEnded } from "../../src/core/batch/batch.ts";
import { sleep } from "../../src/ports/clock.ts";
import type { BatchEvent } from "../../src/ports/store/batch-event.ts";
import { type Fault, faultAtCall, type FaultPlan } from "../faults.ts";
import { startEngine } from "../start-engine.ts";
import { Workload } from "./workload.ts";
import { never, type Node, type Program, World } from "../world.ts";

const LIMIT_MS = 60_000;
const ATTEMPTS = 2;
/** The records that the subscriber always refuses. */
const REFUSED_SEQ = 2;

interface Telling {
  readonly world: World;
  /** Records for which the handler returned. */
  readonly taken: string[];
  readonly refusals: string[];
}

async function tell(faults: FaultPlan): Promise<Telling> {
  const world = new World({ seed: 1, faults });
  const workload = new Workload(world, {
    behaviours: [{ does: "succeed" }, { does: "succeed" }],
    supply: "ranged",
    chunkSize: 2,
    concurrency: 2,
  });
  const taken: string[] = [];
  const refusals: string[] = [];
  const take = async (node: Node, { id, seq }: BatchEvent): Promise<void> => {
    await sleep(node.clock, 5);
    if (!node.alive) return never();
    (seq === REFUSED_SEQ ? refusals : taken).push(id);
    if (seq === REFUSED_SEQ) throw new Error("refused");
  };
  const program: Program = async (node) => {
    const engine = await startEngine(node);
    engine.subscribe("hook", (event) => take(node, event), {
      attempts: ATTEMPTS,
      backoff: { baseMs: 10, capMs: 50 },
    });
    const pipeline = workload.makePipeline(node);
    for (const key of ["a", "b"]) await (await engine.submit(pipeline, key, { key })).wait();
  };
  world.listeners.push({
    onCommit: () => undefined,
    onCrash: ({ life }) => {
      if (life === 1) world.time.after(100, () => world.boot("n1", program));
    },
  });
  world.boot("n1", program);
  const { state } = world.store;
  const isOver = (): boolean =>
    state.batches.size === 2 &&
    [...state.batches.values()].every((batch) => isEnded(batch.state)) &&
    state.positions.get("hook") === state.records.length &&
    world.living.every(({ done }) => done);
  expect(await world.run(isOver, LIMIT_MS), world.trace.describe()).toBe(true);
  return { world, taken, refusals };
}

const faults: readonly Fault[] = [
  { kind: "crash_before" },
  { kind: "crash_after" },
  { kind: "lost_reply" },
  { kind: "refused" },
];

for (const fault of faults) {
  test(`delivers every record or keeps it as one undelivered event: ${fault.kind} at every call`, async () => {
    for (let number = 1; ; number++) {
      const { world, taken, refusals } = await tell(faultAtCall("n1", number, fault));
      if ((world.nodes[0]?.calls ?? 0) < number) break;
      const what = `${fault.kind} at call ${number}`;
      const { records, undelivered } = world.store.state;
      const idsOf = (isRefused: boolean): string[] =>
        records
          .filter(({ seq }) => (seq === REFUSED_SEQ) === isRefused)
          .map(({ batch, seq }) => `${batch}/${seq}`);
      expect([...new Set(taken)], what).toEqual(idsOf(false));
      expect(
        undelivered.map(({ event }) => event),
        what,
      ).toEqual(idsOf(true));
      for (const { attempts } of undelivered) expect(attempts, what).toBe(ATTEMPTS);
      // A crash loses the attempt count of the delivery that it interrupts, and of no other
      // delivery.
      const repeats = refusals.length - undelivered.length * ATTEMPTS;
      expect(repeats, what).toBeGreaterThanOrEqual(0);
      expect(repeats, what).toBeLessThanOrEqual(fault.kind.startsWith("crash") ? ATTEMPTS : 0);
    }
  });
}
