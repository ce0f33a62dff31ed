/** A failed seed in words. */
import type { PlayedSeed } from "./play.ts";

/** The last round and what led to it. */
const STORY_LINES = 120;

export function describePlayed({ seed, problems, story }: PlayedSeed): string {
  return [
    ...story.slice(-STORY_LINES),
    ...problems.map((problem) => `  - ${problem}`),
    `replay: npm run sim -- --store postgres --seed ${seed}`,
  ].join("\n");
}
