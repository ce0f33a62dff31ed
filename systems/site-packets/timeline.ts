/**
 * What happened to a site's documents, from the exported ledger alone: no store, no archive. A
 * document is an item of both steps, with a number in each; its key is its name.
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

/** All records of one document, in order; a document that came twice has two of each. */
export async function readDocument(
  ledgers: readonly string[],
  document: string,
): Promise<DocumentEvent[]> {
  const histories = await Promise.all(
    ledgers.map((ledger) =>
      readItemHistories(
        () => createReadStream(ledger),
        ({ key }) => key === document,
      ),
    ),
  );
  return histories
    .flat()
    .flatMap(({ entries }) => entries)
    .map(({ at, state, code, attempt, details }) => ({ at, state, code, attempt, details }))
    .toSorted((one, other) => one.at.localeCompare(other.at));
}

export const FINAL_STATES: readonly string[] = ["DEDUPED", "REJECTED", "ARCHIVED"];

/**
 * The number of documents in each final state, which a summary must match. The last state counts: a
 * repetition after a dead worker records again, and a redrive begins again.
 */
export async function countFinalStates(ledger: string): Promise<ReadonlyMap<string, number>> {
  const last = new Map<string, string>();
  await readTimeline(createReadStream(ledger), (entry) => {
    if (entry.kind !== "item") return;
    const item = `${entry.step}/${entry.item}`;
    if (FINAL_STATES.includes(entry.state)) last.set(item, entry.state);
    else if (entry.state === "redriven") last.delete(item);
  });
  const counts = new Map<string, number>();
  for (const state of last.values()) counts.set(state, (counts.get(state) ?? 0) + 1);
  return counts;
}
