/**
 * The life of a process in which code runs, and the hold with which it stops time: `world.sleep`
 * and store calls find them without parameters. One storage for all worlds, because on older
 * versions of Node every promise pays for every storage that was ever used.
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
/** Worlds that have not ended. */
let worlds = 0;

/** A world begins; the returned function ends it. */
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

/** The current scope, if it belongs to the same world. */
export function findScope(time: VirtualTime): Scope | null {
  const scope = storage.getStore();
  return scope?.time === time ? scope : null;
}
