/**
 * An item that waits for a limit is not given up as stalled and is not leased meanwhile. A chunk
 * that is leased again and again without starting anything is a loop.
 */
import type { Chunk } from "../../src/adapters/memory/state.ts";
import { type Checker, listBatches, nameBatch, type Scene } from "./checker.ts";
import { listLeased } from "./fencing.ts";

/**
 * This many leases without a start in this short time: an item whose content another one holds
 * needs few.
 */
const LEASES_MAX = 40;
const WITHIN_MS = 2_000;

export function checkRests(scene: Scene): Checker {
  const { world, plot } = scene;
  const isLimited = plot.pipelines.some(({ steps }) =>
    steps.some(({ rate, pace }) => rate !== null || pace !== null),
  );
  if (!isLimited) return {};
  /** Chunks that waited for a limit before this commit, and until when. */
  let resting = new Map<Chunk, number>();
  const leases = new Map<string, number[]>();
  const noteLease = (name: string): void => {
    const now = world.time.nowMs;
    const known = (leases.get(name) ?? []).filter((at) => at > now - WITHIN_MS);
    leases.set(name, [...known, now]);
    if (known.length >= LEASES_MAX)
      scene.fail(`${name} is leased ${known.length + 1} times in vain`);
  };
  return {
    onStart: ({ batch, step, index }) => {
      const chunks = world.store.state.batches.get(batch)?.steps[step]?.chunks ?? [];
      const at = chunks.findIndex(({ start, end }) => start <= index && index < end);
      leases.delete(`${batch}/${step}/${at}`);
    },
    onCommit: (_node, verb, answer) => {
      for (const { batch, step, chunk } of listLeased(verb, answer)) {
        noteLease(`${batch}/${step}/${chunk}`);
      }
      if (verb !== "sweep" && verb !== "work") return;
      const now = world.time.nowMs;
      const waits = new Map<Chunk, number>();
      for (const batch of listBatches(scene)) {
        for (const chunk of batch.steps.at(-1)?.chunks ?? []) {
          if (chunk.state === "waiting" && chunk.limitWait !== null) waits.set(chunk, chunk.dueAt);
          const isGivenUp = chunk.state === "settled" && (resting.get(chunk) ?? 0) > now;
          if (verb === "sweep" && isGivenUp && hasStalled(chunk)) {
            scene.fail(
              `a chunk of ${nameBatch(batch)} is given up as stalled while it waits for a limit`,
            );
          }
        }
      }
      resting = waits;
    },
  };
}

function hasStalled({ tracked }: Chunk): boolean {
  return [...tracked.values()].some(({ error }) => error?.code === "STALLED");
}
