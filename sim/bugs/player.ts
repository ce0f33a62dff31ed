/**
 * A process that plays seeds for its parent, with the bug that its argument names, or with none. It
 * sends `ready` when everything is loaded, and then one answer for each seed.
 */
import { flushCompileCache } from "node:module";
import type { WorldStore } from "../play-seed.ts";
import { applyBug } from "./apply.ts";
import { findBug } from "./list.ts";

export interface SeedAsked {
  readonly seed: number;
  readonly store: WorldStore;
}

export type PlayerWord =
  | { readonly kind: "ready" }
  /** It cannot play at all. */
  | { readonly kind: "unfit"; readonly why: string }
  | { readonly kind: "played"; readonly seed: number; readonly problems: readonly string[] };

// Stacks of the errors that a play throws on purpose are never read, and they cost a tenth of the
// time.
Error.stackTraceLimit = 0;

function send(word: PlayerWord): void {
  process.send?.(word);
}

async function serve(name: string | undefined): Promise<void> {
  const listUnloaded = name === undefined ? () => [] : applyBug(findBug(name));
  // Only now: a module that is loaded before the bug is applied does not have it.
  const { playSeed, WHOLE } = await import("./play.ts");
  const unloaded = listUnloaded();
  if (unloaded.length > 0) {
    return send({ kind: "unfit", why: `no module loads ${unloaded.join(", ")}` });
  }
  process.on("message", ({ seed, store }: SeedAsked) => {
    void playSeed(seed, WHOLE, { store, firstOnly: true }).then(({ problems }) =>
      send({ kind: "played", seed, problems }),
    );
  });
  // A hunt that was stopped leaves no process behind.
  process.on("disconnect", () => process.exit());
  // A module with a bug must not take the place of the sound one.
  if (name === undefined) flushCompileCache();
  send({ kind: "ready" });
}

serve(process.argv[2]).catch((error: unknown) => {
  send({ kind: "unfit", why: String(error) });
  process.disconnect?.();
});
