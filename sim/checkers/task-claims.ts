/**
 * A background task has one holder at a time: a claim is granted only if no other claim is valid.
 */
import type { Checker, Scene } from "./checker.ts";

export function checkTaskClaims(scene: Scene): Checker {
  const held = new Map<string, { readonly worker: number; readonly until: number }>();
  return {
    onCommit: (_node, verb, answer, args) => {
      const [task, worker, forMs] = args as [string, number, number];
      const now = scene.world.storeClock.monotonicMs();
      if (verb === "unclaim" && held.get(task)?.worker === worker) held.delete(task);
      if (verb !== "claim" || answer !== true) return;
      const other = held.get(task);
      held.set(task, { worker, until: now + forMs });
      if (other === undefined || other.worker === worker || other.until <= now) return;
      scene.fail(`${task} is claimed by ${worker} while ${other.worker} holds it`);
    },
  };
}
