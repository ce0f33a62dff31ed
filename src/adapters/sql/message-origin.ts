/** Where the messages of a batch come from and go to: cached, because every report needs it. */
import type { MessageOrigin } from "../../core/events/topic.ts";
import type { UnsentOrigin } from "../../core/events/unsent.ts";
import type { BatchSettings } from "../../ports/store/conductor-store.ts";

/** How many batches are cached. */
const KNOWN_BATCHES_MAX = 10_000;

export interface BatchFacts {
  readonly id: string;
  readonly steps: BatchSettings["steps"];
}

/** A batch's settings never change, and its number is never reused. */
export class KnownBatches {
  readonly #known = new Map<number, BatchFacts>();

  find(num: number): BatchFacts | undefined {
    return this.#known.get(num);
  }

  remember(num: number, row: { readonly id: string; readonly settings: string }): BatchFacts {
    const facts = { id: row.id, steps: (JSON.parse(row.settings) as BatchSettings).steps };
    if (this.#known.size >= KNOWN_BATCHES_MAX) this.#known.clear();
    this.#known.set(num, facts);
    return facts;
  }
}

export function describeOrigin(
  { id, steps }: BatchFacts,
  { step, start }: { readonly step: number; readonly start: number },
): MessageOrigin {
  const settings = steps[step];
  const errorsTopic = settings?.errorsTopic ?? null;
  return { batch: id, step, stepName: settings?.name ?? "", errorsTopic, start };
}

/** A stopped batch, and how far its `unsent` messages have been written. */
export interface StoppedRow {
  readonly num: number;
  readonly step: number;
  readonly drive: number;
  readonly unsent_after: number;
}

export function describeUnsentOrigin(
  { id, steps }: BatchFacts,
  { step, drive }: StoppedRow,
): UnsentOrigin {
  const settings = steps[step];
  const topic = settings?.unsentTopic ?? "";
  return { batch: id, step, stepName: settings?.name ?? "", topic, drive };
}
