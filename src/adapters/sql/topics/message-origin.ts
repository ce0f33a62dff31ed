/** Where the messages of a batch come from and go to: cached, because every report needs it. */
import type { MessageOrigin } from "../../../core/events/topic.ts";
import type { UnsentOrigin } from "../../../core/events/unsent.ts";
import type { BatchSettings } from "../../../ports/store/conductor-store.ts";
import type { Act } from "../dialect/act.ts";
import { statement } from "../dialect/statement.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";

/** How many batches are cached. */
const KNOWN_BATCHES_MAX = 10_000;

const SELECT = statement(
  `SELECT num, id, settings FROM batch
   WHERE num /*sqlite = $1*//*postgres = ANY($1::bigint[])*/`,
);

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

  /** Reads those that are unknown, all at once. */
  *know(tx: RuleTransaction, nums: readonly number[]): Act<ReadonlyMap<number, BatchFacts>> {
    const facts = new Map<number, BatchFacts>();
    const unknown: number[] = [];
    for (const num of new Set(nums)) {
      const found = this.find(num);
      if (found === undefined) unknown.push(num);
      else facts.set(num, found);
    }
    if (unknown.length === 0) return facts;
    type Row = { readonly num: number; readonly id: string; readonly settings: string };
    for (const row of yield* tx.allEach<Row>(SELECT, [], unknown)) {
      facts.set(row.num, this.#remember(row.num, row));
    }
    return facts;
  }

  #remember(num: number, row: { readonly id: string; readonly settings: string }): BatchFacts {
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
