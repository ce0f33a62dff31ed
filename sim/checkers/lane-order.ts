/**
 * Promise 6: each lane has at most one active batch; batches start in the order of submission; and
 * the commit that frees the lane starts the successor, not a later poll.
 */
import type { Batch } from "../../src/adapters/memory/state.ts";
import { isEnded } from "../../src/core/batch/batch.ts";
import type { StoreVerb } from "../../src/ports/store/store-verbs.ts";
import { type Checker, nameBatch, type Scene } from "./checker.ts";
import { readNewRecords } from "./new-records.ts";
import { listPauses } from "./pauses.ts";

export function checkLaneOrder(scene: Scene): Checker {
  const { state } = scene.world.store;
  const { batches } = state;
  const started = new Map<string, string[]>();
  const read = readNewRecords(scene);
  const noteStart = (batch: Batch, drive: number): void => {
    const { id, lane } = batch.submission;
    const known = started.get(lane) ?? [];
    started.set(lane, known);
    if (known.includes(id)) return;
    known.push(id);
    // A reopened batch comes to its lane's head, whether it ever ran or not.
    if (!scene.plot.orderly || drive > 1) return;
    for (const other of batches.values()) {
      if (other === batch) return;
      const waits = other.submission.lane === lane && !known.includes(other.submission.id);
      if (waits && !isEnded(other.state)) {
        scene.fail(`${nameBatch(batch)} starts before ${nameBatch(other)}, which came earlier`);
      }
    }
  };
  const holding = new Set<string>();
  /**
   * After a sweep, no holder is paused while a batch behind it could run, if the policy says so.
   */
  const checkStuck = (holder: Batch): void => {
    const { lane } = holder.submission;
    const policy = state.lanePolicies.get(lane) ?? "block";
    const isLeased = holder.steps.some(({ chunks }) =>
      chunks.some((one) => one.state === "leased"),
    );
    const isPaused = listPauses(state, holder).length > 0;
    if (policy === "block" || !isPaused || isLeased || holder.cancel !== null) return;
    const able = [...batches.values()].find(
      (other) =>
        other !== holder &&
        other.submission.lane === lane &&
        other.parked === null &&
        !isEnded(other.state) &&
        listPauses(state, other).length === 0,
    );
    // Where stuck batches are skipped, the next one must have workers as well.
    if (able === undefined || policy === "skip") return;
    scene.fail(`${nameBatch(holder)} is stuck in ${lane}, and ${nameBatch(able)} waits behind it`);
  };
  const checkHolders = (verb: StoreVerb): Set<string> => {
    const held = new Map<string, string>();
    for (const batch of batches.values()) {
      const { id, lane } = batch.submission;
      const letsGo = !batch.active && holding.delete(id);
      if (letsGo && !isEnded(batch.state) && batch.parked === null) {
        // A holder steps aside only where stuck batches are passed over, and only at a sweep.
        const policy = state.lanePolicies.get(lane) ?? "block";
        if (policy !== "skip" || verb !== "sweep") {
          scene.fail(`${nameBatch(batch)} frees ${lane}, whose policy is ${policy}`);
        }
      }
      if (verb === "sweep" && batch.active) checkStuck(batch);
      if (batch.active) {
        holding.add(id);
        const other = held.get(lane);
        if (other !== undefined) scene.fail(`${nameBatch(batch)} and ${other} both hold ${lane}`);
        held.set(lane, nameBatch(batch));
        if (isEnded(batch.state)) scene.fail(`${nameBatch(batch)} has ended and holds its lane`);
      } else if (batch.state === "running") {
        scene.fail(`${nameBatch(batch)} runs without its lane`);
      }
    }
    return new Set(held.keys());
  };
  /** A lane that no batch holds while one of its batches could run. */
  const checkIdle = (held: ReadonlySet<string>): void => {
    for (const batch of batches.values()) {
      const { lane } = batch.submission;
      const waits = !batch.active && batch.parked === null && !isEnded(batch.state);
      if (!waits || held.has(lane)) continue;
      // Where stuck batches are passed over, it also matters which have workers: the sweep checks
      // that.
      const policy = state.lanePolicies.get(lane) ?? "block";
      if (policy === "skip" || listPauses(state, batch).length > 0) continue;
      scene.fail(
        `no batch holds ${lane}, although ${nameBatch(batch)} (${batch.state}) waits for it`,
      );
    }
  };
  return {
    onCommit: (_node, verb) => {
      const held = checkHolders(verb);
      for (const { batch: id, type, data } of read()) {
        const batch = batches.get(id);
        if (batch === undefined) continue;
        if (type === "batch.started") noteStart(batch, Number(data["drive"] ?? 1));
        const policy = state.lanePolicies.get(batch.submission.lane) ?? "block";
        if (type === "batch.parked" && data["code"] === "STUCK" && policy !== "park") {
          scene.fail(`${nameBatch(batch)} is parked in a lane whose policy is ${policy}`);
        }
        if (type === "batch.reopened") checkHead(scene, batch);
      }
      // A paused head blocks its lane; batches behind it are checked when it goes on.
      if (verb !== "beat" && verb !== "claim") checkIdleHeads(checkIdle, held);
    },
  };

  function checkIdleHeads(check: (held: ReadonlySet<string>) => void, held: Set<string>): void {
    const blocked = new Set(held);
    const heads = new Map<string, Batch>();
    for (const batch of batches.values()) {
      const { lane } = batch.submission;
      if (batch.active || batch.parked !== null || isEnded(batch.state)) continue;
      const head = heads.get(lane);
      if (head === undefined || batch.place < head.place) heads.set(lane, batch);
    }
    for (const [lane, head] of heads) {
      const policy = state.lanePolicies.get(lane) ?? "block";
      if (policy === "block" && listPauses(state, head).length > 0) blocked.add(lane);
    }
    check(blocked);
  }
}

/** A reopened batch queues at its lane's head. */
function checkHead(scene: Scene, batch: Batch): void {
  if (batch.active || isEnded(batch.state)) return;
  for (const other of scene.world.store.state.batches.values()) {
    const waits =
      other !== batch &&
      other.submission.lane === batch.submission.lane &&
      !other.active &&
      other.parked === null &&
      !isEnded(other.state);
    if (waits && other.place < batch.place) {
      scene.fail(`${nameBatch(batch)} is reopened behind ${nameBatch(other)}`);
    }
  }
}
