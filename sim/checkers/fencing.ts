/**
 * Promise 2, its other half: a worker that lost a lease can change nothing. A handler starts only
 * under a live lease of its own node, with the current fence; fences only rise; reports, renewals,
 * claims and plans with an old fence are refused.
 */
import type { Chunk } from "../../src/adapters/memory/state.ts";
import type { StoreVerb } from "../../src/ports/store/store-verbs.ts";
import type {
  ActResult,
  InlineResult,
  PlanPart,
  PlanResult,
} from "../../src/ports/store/conductor-store.ts";
import {
  type LeasedChunk,
  type LeaseRef,
  nameLease,
  type RenewResult,
  type Report,
  type WorkResult,
} from "../../src/ports/store/worker-store.ts";
import type { Node } from "../world.ts";
import { type Checker, describeRun, findPlace, type Scene } from "./checker.ts";

interface Holder {
  readonly node: Node;
  readonly fence: number;
}

export function checkFencing(scene: Scene): Checker {
  const { world } = scene;
  /** The last grant of each chunk, with its fence. */
  const holders = new Map<string, Holder>();
  const fences = new Map<Chunk, number>();
  const planning = checkPlanning(scene);
  /**
   * Batches that ended early while workers held chunks of them; those workers learn of it later.
   */
  const cutShort = new Set<string>();
  const isStale = (node: Node, { batch, step, chunk, fence }: LeaseRef): boolean => {
    const holder = holders.get(`${batch}/${step}/${chunk}`);
    return holder?.node !== node || holder.fence !== fence;
  };
  const checkLeases = (node: Node, verb: StoreVerb, answer: unknown, args: readonly unknown[]) => {
    const fail = (what: string, { batch, step, chunk, fence }: LeaseRef): void =>
      scene.fail(`${what} ${batch}/${step}/${chunk} with the old fence ${fence} is accepted`);
    if (verb === "work") {
      const { reports } = answer as WorkResult;
      for (const [at, report] of (args[0] as readonly Report[]).entries()) {
        if (isStale(node, report) && reports[at] !== "lost") fail("a report on", report);
      }
    }
    if (verb === "renew") {
      const lost = new Set((answer as RenewResult).lost.map(nameLease));
      for (const lease of args[1] as readonly LeaseRef[]) {
        if (isStale(node, lease) && !lost.has(nameLease(lease))) fail("a renewal of", lease);
      }
    }
    if (verb === "claimContents" && answer !== null && isStale(node, args[0] as LeaseRef)) {
      fail("a claim for", args[0] as LeaseRef);
    }
  };
  return {
    onCommit: (node, verb, answer, args) => {
      checkLeases(node, verb, answer, args);
      planning(verb, answer, args);
      for (const { batch, step, chunk, fence } of listLeased(verb, answer)) {
        const where = `${batch}/${step}/${chunk}`;
        const before = holders.get(where)?.fence ?? 0;
        if (fence <= before) scene.fail(`${where} is leased with fence ${fence} after ${before}`);
        holders.set(where, { node, fence });
      }
      for (const batch of world.store.state.batches.values()) {
        if (batch.state === "failed" || batch.state === "expired") {
          cutShort.add(batch.submission.id);
        }
        for (const { chunks } of batch.steps) {
          for (const chunk of chunks) {
            const before = fences.get(chunk);
            if (before === chunk.fence) continue;
            if ((before ?? 0) > chunk.fence) scene.fail("a fence falls", chunk.fence);
            fences.set(chunk, chunk.fence);
          }
        }
      }
    },
    onStart: (run) => {
      const place = findPlace(scene, run);
      if (place === null || cutShort.has(run.batch)) return;
      const { batch, chunk, at } = place;
      const what = describeRun(run);
      if (batch.state !== "running") return scene.fail(`${what}, which is ${batch.state}`);
      if (chunk.state !== "leased" || chunk.leaseUntil <= world.time.nowMs) {
        scene.fail(`${what} without a live lease`);
      }
      const holder = holders.get(`${run.batch}/${run.step}/${at}`);
      if (holder?.node !== run.node) scene.fail(`${what}, which another node holds`);
      if (run.fence !== chunk.fence) scene.fail(`${what} with an old fence`);
    },
  };
}

/** A slicer that lost its claim plans and finishes nothing more. */
function checkPlanning(
  scene: Scene,
): (verb: StoreVerb, answer: unknown, args: readonly unknown[]) => void {
  /**
   * The newest fence of slicing, by batch and step; and the fence with which each part was planned.
   */
  const rights = new Map<string, number>();
  const parts = new Set<string>();
  return (verb, answer, args) => {
    if (verb === "startSlicing" && (answer as ActResult).kind === "done") {
      const { id, step, sliceFence } = (answer as ActResult).batch;
      rights.set(`${id}/${step}`, sliceFence);
    }
    if (verb === "plan" || verb === "planInline") {
      const { batch, step, fence, part, chunks } = args[0] as PlanPart;
      const open = scene.world.store.state.batches.get(batch)?.submission.open === true;
      const planned = (answer as PlanResult).kind === "planned";
      const isOld = fence < (rights.get(`${batch}/${step}`) ?? 0) && !parts.has(part);
      if (planned && isOld && !open)
        scene.fail(`a slicer without its claim plans ${chunks.length} chunks`);
      if (planned) parts.add(part);
    }
    if (verb === "finishSlicing" && (answer as ActResult).kind === "done") {
      const [id, , fence] = args as [string, number, number];
      const { step } = (answer as ActResult).batch;
      // The same commit may have begun the next step of an open batch or of an empty step.
      const right = rights.get(`${id}/${step}`) ?? 0;
      if (fence < right)
        scene.fail(`a slicer without its claim finishes ${id} with ${fence} of ${right}`);
    }
  };
}

export function listLeased(verb: StoreVerb, answer: unknown): readonly LeasedChunk[] {
  if (verb === "work") return (answer as WorkResult).leased;
  if (verb !== "planInline") return [];
  const inline = answer as InlineResult;
  return inline.kind === "leased" ? [inline.chunk] : [];
}
