/** What keeps a batch from running, in a few words: its lane's turn, a pause, a cancel. */
import { type Act, isEnded } from "../core/batch/batch.ts";
import type { BatchFacts } from "../core/batch/why.ts";
import type { BatchSnapshot } from "../ports/store/conducting.ts";
import type { Store } from "../ports/store/store.ts";
import { countNoun } from "../cli/output/format-number.ts";

/** What a snapshot alone can say; null when nothing but work is to be waited for. */
export function describeHold(batch: BatchSnapshot, ahead: number | null): string | null {
  const { state, cancel, parked, pause, active, lane } = batch;
  if (isEnded(state)) return null;
  if (cancel !== null) return `being cancelled (${cancel.mode}) by ${describeWho(cancel)}`;
  if (parked !== null) return `parked: ${parked.message}`;
  if (pause !== null) {
    const what = pause.scope === "batch" ? "" : ` (its ${pause.scope} ${pause.name})`;
    return `paused${what} by ${describeWho(pause)}`;
  }
  if (active) return null;
  const before = ahead === null ? "" : `, ${ahead} before it`;
  return `waits for its turn in lane ${lane}${before}`;
}

/** As the rest of a sentence about the batch: "waits for...", "is paused...". */
export function nameHold(hold: string): string {
  return hold.startsWith("waits") ? hold : `is ${hold}`;
}

/** "ada: maintenance" */
export function describeWho({ by, why }: Act): string {
  return why === null ? by : `${by}: ${why}`;
}

export interface Hold {
  readonly text: string | null;
  readonly facts: BatchFacts | null;
}

/** With how many come before it. */
export async function readHold(store: Store, batch: BatchSnapshot): Promise<Hold> {
  const facts = (await store.readWaiting(batch.id, 0))?.batch ?? null;
  return { text: describeHold(batch, facts?.ahead ?? null), facts };
}

/** Null when somebody works on it, or will. */
export function describeNobody(facts: BatchFacts | null): string | null {
  if (facts === null || isEnded(facts.state) || facts.hasWorker) return null;
  const { pipeline, version, leased } = facts;
  const held = leased === 0 ? "" : `; ${countNoun(leased, "chunk")} will be taken back`;
  return `no worker has the pipeline ${pipeline} in version ${version}${held}`;
}
