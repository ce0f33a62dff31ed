/** Messages that items leave, written with the outcomes of their chunk. */
import { hasMessages, listMessages } from "../../../core/events/topic.ts";
import type { ChunkEffect } from "../../../core/items/tracked-item.ts";
import { runNow } from "../../sql/dialect/act.ts";
import type { HeldRow } from "../../sql/step-changes.ts";
import {
  type BatchFacts,
  describeOrigin,
  type KnownBatches,
} from "../../sql/topics/message-origin.ts";
import { addMessages } from "../../sql/topics/topics.ts";
import type { Connection } from "../connection/connection.ts";

export class Topics {
  readonly #connection: Connection;
  readonly #known: KnownBatches;

  constructor(connection: Connection, known: KnownBatches) {
    this.#connection = connection;
    this.#known = known;
  }

  /** Writes the messages of a chunk's items, with the effect that sets their outcomes. */
  write(row: HeldRow, effect: ChunkEffect): void {
    if (!hasMessages(effect)) return;
    const { rules } = this.#connection.transaction;
    const facts = runNow(this.#known.know(rules, [row.batch])).get(row.batch) as BatchFacts;
    addMessages(rules, listMessages(describeOrigin(facts, row), effect));
  }
}
