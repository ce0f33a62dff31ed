/**
 * What happened to a site's documents, from the exported ledger alone: no store, no archive. A document
 * is an item of both steps, under its number in each; its key says what it is called.
 */
import { createReadStream } from "node:fs";
import { readItemHistories, readTimeline } from "sluice/ledger";

export interface DocumentEvent {
  readonly at: string;
  readonly state: string;
  readonly code: string | null;
  readonly attempt: number | null;
  readonly details: unknown;
}

/** Everything that is said of one document, in order; a document that came twice has two of each. */
export async function readDocument(ledger: string, document: string): Promise<DocumentEvent[]> {
  const histories = await readItemHistories(
    () => createReadStream(ledger),
    ({ key }) => key === document,
  );
  return histories
    .flatMap(({ entries }) => entries)
    .map(({ at, state, code, attempt, details }) => ({ at, state, code, attempt, details }))
    .toSorted((one, other) => one.at.localeCompare(other.at));
}

const FINAL_STATES = ["DEDUPED", "REJECTED", "ARCHIVED"];

/** How many documents came to which final state: this is what a summary must agree with. */
export async function countFinalStates(ledger: string): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  await readTimeline(createReadStream(ledger), (entry) => {
    if (entry.kind !== "item" || !FINAL_STATES.includes(entry.state)) return;
    counts.set(entry.state, (counts.get(entry.state) ?? 0) + 1);
  });
  return counts;
}
