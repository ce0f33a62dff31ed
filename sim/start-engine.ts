/** An engine on a node, with settings that suit virtual time. */
import { Engine, type StartOptions } from "../src/runtime/engine/engine.ts";
import type { EngineSettings } from "../src/runtime/system/settings.ts";
import type { Node } from "./world.ts";

export const ABORT_GRACE_MS = 100;

export const SETTINGS: Partial<EngineSettings> = {
  leaseMs: 2_000,
  renewMs: 700,
  sweepMs: 300,
  flushMs: 40,
  flushItems: 2,
  drainMs: 1_000,
  abortGraceMs: ABORT_GRACE_MS,
  sealWithinMs: 40_000,
};

export function startEngine(node: Node, options: StartOptions = {}): Promise<Engine> {
  return Engine.start(node.store, {
    ...SETTINGS,
    ...options,
    clock: node.clock,
    random: node.random,
    log: (entry) => void node.logs.push(entry),
  });
}
