/**
 * Within which life of a process code runs, and with what it holds time: known to `world.sleep` and
 * to calls of the store without being told. One storage for all worlds: on older versions of Node
 * every promise pays for every storage that was ever used.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Hold } from "./hold.ts";
import type { Life } from "./life.ts";
import type { VirtualTime } from "./virtual-clock.ts";

export interface Scope {
  readonly time: VirtualTime;
  readonly life: Life;
  /** Null for a process's own program: it waits for the engine most of the time. */
  readonly hold: Hold | null;
}

const storage = new AsyncLocalStorage<Scope>();
/** Worlds that are not over. */
let worlds = 0;

/** A world begins; what is returned ends it. */
export function openScopes(): () => void {
  worlds++;
  let isOpen = true;
  return () => {
    if (!isOpen) return;
    isOpen = false;
    worlds--;
    if (worlds === 0) storage.disable();
  };
}

export function runInScope<Returned>(scope: Scope, work: () => Returned): Returned {
  return storage.run(scope, work);
}

/** The scope that this is called in, if it is one of the same world. */
export function findScope(time: VirtualTime): Scope | null {
  const scope = storage.getStore();
  return scope?.time === time ? scope : null;
}
