/**
 * Puts a bug into the modules that are loaded from now on. Use it in a separate process: import it
 * before any module of `src`, and load the rest dynamically.
 */
import { registerHooks } from "node:module";
import { type Bug, listEdits, patchText } from "./bug.ts";

const ROOT = new URL("../../", import.meta.url).href;

/** Returns a function that lists the files with edits that no module has loaded yet. */
export function applyBug(bug: Bug): () => string[] {
  const waiting = new Set(listEdits(bug).map(({ file }) => file));
  const files = new Set(waiting);
  registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context);
      const file = url.startsWith(ROOT) ? url.slice(ROOT.length) : "";
      if (!files.has(file)) return loaded;
      if (loaded.source === null || loaded.source === undefined) {
        throw new Error(`${url} was loaded without its text, so it cannot get the bug`);
      }
      waiting.delete(file);
      // The source keeps its types: Node strips them from a hook's source, as from any file.
      return { ...loaded, source: patchText(bug, file, readSource(loaded.source)) };
    },
  });
  return () => [...waiting];
}

function readSource(source: string | ArrayBuffer | NodeJS.TypedArray): string {
  return typeof source === "string" ? source : new TextDecoder().decode(source);
}
