/** An item that runs again begins after the last stage that was certainly recorded. */
import type { Checker, Scene } from "./checker.ts";

export function checkCheckpoints(scene: Scene): Checker {
  const saved = new Map<string, number>();
  const tried = new Map<string, number>();
  return {
    onStage: (item, what, stage) => {
      const had = saved.get(item) ?? 0;
      const reached = tried.get(item) ?? 0;
      if (what === "tries") tried.set(item, Math.max(stage, reached));
      if (what === "has") saved.set(item, Math.max(stage, had));
      if (what !== "begins") return;
      if (stage < had) scene.fail(`${item} begins after stage ${stage}, but had ${had}`);
      if (stage > reached) scene.fail(`${item} begins after stage ${stage}, which it never had`);
    },
  };
}
