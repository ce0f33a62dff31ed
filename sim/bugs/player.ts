/**
 * A process that plays seeds for its parent, with the bug that its argument names, or with none. It
 * sends `ready` when everything is loaded, and then one answer for each seed.
 */
import { flushCompileCache } from "node:module";
import { applyBug } from "./apply.ts";
import { type HuntedOn, pickWorld } from "./bug.ts";
import { findBug } from "./list.ts";

export interface SeedAsked {
  readonly seed: number;
  readonly store: HuntedOn;
  /** The address of the server, if it is played on one. */
  readonly server: string | null;
}

export type PlayerWord =
  | { readonly kind: "ready" }
  /** It cannot play at all. */
  | { readonly kind: "unfit"; readonly why: string }
  | { readonly kind: "played"; readonly seed: number; readonly problems: readonly string[] };

function send(word: PlayerWord): void {
  process.send?.(word);
}

type Play = (asked: SeedAsked) => Promise<readonly string[]>;

/** Imported only now: a module that is loaded before the bug is applied does not have it. */
async function load(store: HuntedOn): Promise<Play> {
  if (store === "postgres") {
    const { playOnServer } = await import("../interleaved/play-on-server.ts");
    return async ({ seed, server }) => (await playOnServer(seed, server ?? "")).problems;
  }
  const { playSeed, WHOLE } = await import("./play.ts");
  return async ({ seed }) => (await playSeed(seed, WHOLE, { store, firstOnly: true })).problems;
}

async function serve(name: string | undefined): Promise<void> {
  const plays = new Map<HuntedOn, Promise<Play>>();
  const find = (store: HuntedOn): Promise<Play> => {
    const known = plays.get(store) ?? load(store);
    plays.set(store, known);
    return known;
  };
  if (name === undefined) {
    await find("memory");
    // The other processes compile no module again; one with a bug must not take a sound one's place.
    flushCompileCache();
  } else {
    const bug = findBug(name);
    const listUnloaded = applyBug(bug);
    await find(pickWorld(bug));
    const unloaded = listUnloaded();
    if (unloaded.length > 0) {
      return send({ kind: "unfit", why: `no module loads ${unloaded.join(", ")}` });
    }
  }
  process.on("message", (asked: SeedAsked) => {
    void find(asked.store)
      .then((play) => play(asked))
      .then((problems) => send({ kind: "played", seed: asked.seed, problems }));
  });
  // A hunt that was stopped leaves no process behind.
  process.on("disconnect", () => process.exit());
  send({ kind: "ready" });
}

serve(process.argv[2]).catch((error: unknown) => {
  send({ kind: "unfit", why: String(error) });
  process.disconnect?.();
});
