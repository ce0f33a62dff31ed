/** An event as receivers outside of the program see it: the same bytes for every delivery. */
import type { BatchEvent } from "../ports/batch-event.ts";

export function writeEventJson({ id, type, batch, seq, at, data }: BatchEvent): string {
  return JSON.stringify({ id, type, batch, seq, at, data });
}
