/**
 * Puts a bug into the modules that are loaded from now on. It is for a process of its own: import it
 * before anything of `src`, and load the rest dynamically.
 */
import { registerHooks } from "node:module";
import { type Bug, listEdits, patchText } from "./bug.ts";

const ROOT = new URL("../../", import.meta.url).href;

/** Answers a function that lists the files with edits which nobody has loaded so far. */
export function applyBug(bug: Bug): () => string[] {
  const waiting = new Set(listEdits(bug).map(({ file }) => file));
  const files = new Set(waiting);
  registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context);
      const file = url.startsWith(ROOT) ? url.slice(ROOT.length) : "";
      if (!files.has(file)) return loaded;
      if (loaded.source === null || loaded.source === undefined) {
        throw new Error(`${url} was loaded without its text, so that it cannot get a bug`);
      }
      waiting.delete(file);
      // Still with its types: they are stripped from what a hook answers, as from any file.
      return { ...loaded, source: patchText(bug, file, readSource(loaded.source)) };
    },
  });
  return () => [...waiting];
}

function readSource(source: string | ArrayBuffer | NodeJS.TypedArray): string {
  return typeof source === "string" ? source : new TextDecoder().decode(source);
}
