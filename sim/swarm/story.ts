/** Tells the history of a world as a story that a person can follow. */
import type { TraceLine } from "../trace.ts";

/** Queries, heartbeats and sweeps that found nothing are not part of a story. */
const IDLE =
  /#\d+ (beat|readStops|listUnsliced|readRecords|readPosition|readLastPosition|getBatch|recount|registerWorker|readManifests|listLanes|listBatches|claim|unclaim|savePosition)\b/;
const FOUND_NOTHING = /work -> \[\] \+\[\]$|"lostLeases":0,"tended":0,"ended":\[\]/;

export function tellStory(lines: readonly TraceLine[], linesMax: number): string[] {
  const told = lines.filter(
    ({ kind, text }) => kind === "fault" || !(IDLE.test(text) || FOUND_NOTHING.test(text)),
  );
  const skipped = told.length - linesMax;
  return [
    ...(skipped > 0 ? [`... ${skipped} lines before`] : []),
    ...told.slice(-linesMax).map(({ atMs, text }) => `${formatTime(atMs)}  ${text}`),
  ];
}

function formatTime(atMs: number): string {
  const minutes = String(Math.floor(atMs / 60_000)).padStart(2, "0");
  const seconds = ((atMs % 60_000) / 1_000).toFixed(3).padStart(6, "0");
  return `${minutes}:${seconds}`;
}
