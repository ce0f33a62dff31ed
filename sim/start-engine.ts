/** An engine on a node, with settings that suit virtual time. */
import { Engine, type StartOptions } from "../src/runtime/engine/engine.ts";
import type { LogEntry } from "../src/runtime/system/log.ts";
import type { EngineSettings, Tuning } from "../src/runtime/system/settings.ts";
import type { Node } from "./world.ts";

export const ABORT_GRACE_MS = 100;

/** Settings of an engine, and what users cannot set. */
export interface SimSettings extends Partial<EngineSettings> {
  readonly tuning?: Tuning;
}

export const SETTINGS: Partial<EngineSettings> = {
  leaseMs: 2_000,
  flushMs: 40,
  drainMs: 1_000,
  abortGraceMs: ABORT_GRACE_MS,
  sealWithinMs: 40_000,
};

const TUNING: Tuning = { renewMs: 700, sweepMs: 300, flushItems: 2 };

export function startEngine(
  node: Node,
  { tuning, ...options }: StartOptions & SimSettings = {},
): Promise<Engine> {
  const parts = {
    ...SETTINGS,
    ...options,
    clock: node.clock,
    random: node.random,
    log: (entry: LogEntry) => void node.logs.push(entry),
  };
  return Engine.start(node.store, parts, { ...TUNING, ...tuning });
}
