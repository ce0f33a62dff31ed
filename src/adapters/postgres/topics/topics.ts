/** The messages that items leave, collected over the chunks of one commit and written with it. */
import { hasMessages, listMessages } from "../../../core/events/topic.ts";
import type { ChunkEffect } from "../../../core/items/tracked-item.ts";
import { runAct } from "../../sql/dialect/act.ts";
import type { HeldRow } from "../../sql/step-changes.ts";
import {
  type BatchFacts,
  describeOrigin,
  type KnownBatches,
} from "../../sql/topics/message-origin.ts";
import { addMessages } from "../../sql/topics/topics.ts";
import type { Transaction } from "../connection/transaction.ts";

export class MessageDrafts {
  readonly #known: KnownBatches;
  readonly #drafts: { readonly row: HeldRow; readonly effect: ChunkEffect }[] = [];

  constructor(known: KnownBatches) {
    this.#known = known;
  }

  /** Adds the messages of a chunk's items, with the effect that sets their outcomes. */
  add(row: HeldRow, effect: ChunkEffect): void {
    if (hasMessages(effect)) this.#drafts.push({ row, effect });
  }

  /** Writes all of them, in order. */
  async send(tx: Transaction): Promise<void> {
    if (this.#drafts.length === 0) return;
    const nums = this.#drafts.map(({ row }) => row.batch);
    const [facts] = await Promise.all([runAct(this.#known.know(tx.rules, nums)), tx.begin()]);
    const messages = this.#drafts.flatMap(({ row, effect }) =>
      listMessages(describeOrigin(facts.get(row.batch) as BatchFacts, row), effect),
    );
    addMessages(tx.rules, messages);
  }
}
