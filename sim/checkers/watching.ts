/**
 * A stall is one only while a worker could run the batch and none does: leftovers are not given up
 * while a lease lives, the batch is paused, or no worker serves it; a batch whose slicer lives is
 * not called stale. Each end of a step is recorded in the commit that brings it.
 */
import type { Batch, State } from "../../src/adapters/memory/state.ts";
import { isEnded } from "../../src/core/batch/batch.ts";
import { nameSlicingTask } from "../../src/ports/store/conductor-store.ts";
import { type Checker, nameBatch, type Scene } from "./checker.ts";
import { readNewRecords } from "./new-records.ts";
import { listPauses } from "./pauses.ts";

export function checkWatching(scene: Scene): Checker {
  const { world } = scene;
  const { state } = world.store;
  const read = readNewRecords(scene);
  const stalled = new Map<string, number>();
  const at = new Map<string, { readonly step: number; readonly ended: boolean }>();
  /** The workers and leases before this commit, which may end some. */
  let before = takeFacts(state);
  return {
    onCommit: (_node, verb) => {
      const now = world.storeClock.monotonicMs();
      const records = read();
      const ends = new Set(
        records.filter(({ type }) => type === "step.ended").map(({ batch }) => batch),
      );
      for (const batch of state.batches.values()) {
        const { id } = batch.submission;
        const known = at.get(id);
        const ended = isEnded(batch.state);
        at.set(id, { step: batch.step, ended });
        if (known !== undefined && batch.step > known.step && !ends.has(id)) {
          scene.fail(`${nameBatch(batch)} goes on to step ${batch.step} unrecorded`);
        }
        if (verb !== "sweep") continue;
        const letters = countStalled(batch);
        const grown = letters > (stalled.get(id) ?? 0);
        stalled.set(id, letters);
        if (!grown) continue;
        const isServed = (before.served.get(nameCode(batch)) ?? 0) > now;
        const why =
          (before.leased.get(id) ?? 0) > now
            ? "a lease lives"
            : (before.busy.get(batch.submission.pipeline) ?? 0) > now
              ? "its workers are busy"
              : listPauses(state, batch).length > 0
                ? "it is paused"
                : isServed
                  ? null
                  : "no worker serves it";
        if (why !== null) scene.fail(`${nameBatch(batch)} is given up as stalled while ${why}`);
      }
      for (const { batch: id, type, data } of records) {
        if (type !== "batch.parked" || data["code"] !== "STALE") continue;
        const claim = state.claims.get(nameSlicingTask(id));
        if ((claim?.until ?? 0) > now) {
          scene.fail(`${id} is called stale while a slicer plans it`);
        }
      }
      before = takeFacts(state);
    },
  };
}

function countStalled({ steps }: Batch): number {
  return steps.reduce(
    (sum, { chunks }) =>
      sum +
      chunks.reduce(
        (some, { tracked }) =>
          some + [...tracked.values()].filter(({ error }) => error?.code === "STALLED").length,
        0,
      ),
    0,
  );
}

function nameCode({ submission: { pipeline, version } }: Batch): string {
  return `${pipeline}@${version}`;
}

/** Until when something of each batch is leased, and until when each pipeline has workers. */
function takeFacts(state: State): {
  readonly leased: ReadonlyMap<string, number>;
  readonly served: ReadonlyMap<string, number>;
  /** Until when something of each pipeline is leased. */
  readonly busy: ReadonlyMap<string, number>;
} {
  const leased = new Map<string, number>();
  const busy = new Map<string, number>();
  for (const [id, batch] of state.batches) {
    if (isEnded(batch.state)) continue;
    for (const { chunks } of batch.steps) {
      for (const chunk of chunks) {
        if (chunk.state !== "leased") continue;
        leased.set(id, Math.max(chunk.leaseUntil, leased.get(id) ?? 0));
        const { pipeline } = batch.submission;
        busy.set(pipeline, Math.max(chunk.leaseUntil, busy.get(pipeline) ?? 0));
      }
    }
  }
  const served = new Map<string, number>();
  for (const { until, serves } of state.workers.values()) {
    for (const { pipeline, version } of serves) {
      const code = `${pipeline}@${version}`;
      served.set(code, Math.max(until, served.get(code) ?? 0));
    }
  }
  return { leased, served, busy };
}
