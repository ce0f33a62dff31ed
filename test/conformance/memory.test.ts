import { hash } from "node:crypto";
import { createMemoryStore } from "../../src/adapters/memory/store.ts";
import { describeStore } from "./store.ts";

describeStore("memory", async (clock) => {
  const store = createMemoryStore({ clock, sha256: (text) => hash("sha256", text) });
  return { store, dispose: () => store.close() };
});
