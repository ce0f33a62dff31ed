/**
 * A lease is lost only for a reason: its worker died, was frozen, was cut off, or one of its calls
 * met a fault. A worker that lives and reaches the store keeps its chunks, and a worker that closes
 * in good order leaves nothing leased.
 */
import type { Chunk } from "../../src/adapters/memory/state.ts";
import type { Node } from "../world.ts";
import { type Checker, findPlace, listBatches, nameBatch, type Scene } from "./checker.ts";
import { listLeased } from "./fencing.ts";

export function checkKeptLeases(scene: Scene): Checker {
  const { world, errands } = scene;
  const { leaseMs = 2_000, tuning } = scene.plot.settings ?? {};
  const sweepMs = tuning?.sweepMs ?? 300;
  /** When each node last met something that may have cost it a lease. */
  const troubledAt = new Map<Node, number>();
  const states = new Map<Chunk, string>();
  const holders = new Map<string, Node>();
  const trouble = (node: Node): void => void troubledAt.set(node, world.time.nowMs);
  const isTroubled = (node: Node): boolean => {
    const weather = world.weather.some((one) => one.node === null || one.node === node.name);
    const sinceMs = world.time.nowMs - (troubledAt.get(node) ?? Number.NEGATIVE_INFINITY);
    // After an outage, the sweep spares leases that ran out meanwhile for the time of a lease.
    const foundWithinMs = leaseMs * 3 + sweepMs * 2;
    return !node.alive || node.clock.isFrozen || weather || sinceMs < foundWithinMs;
  };
  const checkSweep = (): void => {
    for (const run of errands.runs) {
      if (isTroubled(run.node)) continue;
      const place = findPlace(scene, run);
      if (place === null || place.chunk.fence !== run.fence) continue;
      const { chunk, batch } = place;
      const lost = states.get(chunk) === "leased" && chunk.state === "waiting";
      // Leases of a cancelled batch are not renewed.
      if (!lost || batch.cancel !== null) continue;
      const who = `${run.node.name}.${run.node.life}`;
      scene.fail(`${who} loses ${run.step}/${run.index} of ${nameBatch(batch)} for no reason`);
    }
  };
  return {
    // A call that was refused, or whose answer was lost, is repeated at once; a renewal is not.
    onFault: (kind, node, verb) => {
      const repeated = (kind === "refused" || kind === "lost_reply") && verb !== "renew";
      if (!repeated) trouble(node);
    },
    onTrouble: (node) => {
      for (const one of node === null ? world.living : [node]) trouble(one);
    },
    onCommit: (node, verb, answer) => {
      for (const { batch, step, chunk, fence } of listLeased(verb, answer)) {
        holders.set(`${batch}/${step}/${chunk}/${fence}`, node);
      }
      if (verb === "sweep") checkSweep();
      for (const batch of world.store.state.batches.values()) {
        for (const { chunks } of batch.steps) {
          for (const chunk of chunks) {
            // Most are as they were, and looking costs less than writing.
            if (states.get(chunk) !== chunk.state) states.set(chunk, chunk.state);
          }
        }
      }
    },
    onRetire: (node) => {
      if (isTroubled(node)) return;
      for (const batch of listBatches(scene)) {
        for (const [number, { chunks }] of batch.steps.entries()) {
          for (const [at, { state, fence }] of chunks.entries()) {
            const holder = holders.get(`${batch.submission.id}/${number}/${at}/${fence}`);
            if (state !== "leased" || holder !== node) continue;
            scene.fail(`${node.name} has closed and holds ${number}/${at} of ${nameBatch(batch)}`);
          }
        }
      }
    },
  };
}
