/** Plays seeds on the same ground of a server, one after the other. */
import { Ground } from "./ground.ts";
import { type PlayedSeed, playInterleaved } from "./play.ts";

const grounds = new Map<string, Promise<Ground>>();

export async function playOnServer(seed: number, server: string): Promise<PlayedSeed> {
  const ground = grounds.get(server) ?? Ground.open(server);
  grounds.set(server, ground);
  return playInterleaved(seed, await ground);
}

/** Removes what it made there. */
export async function leaveServers(): Promise<void> {
  const all = [...grounds.values()];
  grounds.clear();
  for (const ground of all) await (await ground).close();
}
