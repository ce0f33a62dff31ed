/** A store that loses everything when its process ends: for tests of your own pipelines. */
import { hash } from "node:crypto";
import { createMemoryStore } from "./adapters/memory/store.ts";
import type { Store } from "./ports/store/store.ts";
import { systemClock } from "./runtime/system/system-clock.ts";

export function openMemory(): Store {
  return createMemoryStore({ clock: systemClock, sha256: (text) => hash("sha256", text) });
}
