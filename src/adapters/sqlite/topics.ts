/** Messages of topics in SQL: written with outcomes, read by groups, removed by retention. */
import type { StatementSync } from "node:sqlite";
import { readGroupName } from "../../core/reader-name.ts";
import { hasMessages, listMessages } from "../../core/topic.ts";
import type { ChunkEffect } from "../../core/tracked-item.ts";
import type { Clock } from "../../ports/clock.ts";
import type { BatchSettings } from "../../ports/conducting.ts";
import {
  type GroupView,
  PAGE_CHARS_MAX,
  type StoredMessage,
  type TopicView,
} from "../../ports/topics.ts";
import type { HeldRow } from "./chunks.ts";
import type { Connection } from "./connection.ts";

/** Batches of which it is remembered where their messages go. */
const KNOWN_BATCHES_MAX = 10_000;
/** Above every position. */
const NEVER = "9223372036854775807";

interface BatchFacts {
  readonly id: string;
  readonly steps: BatchSettings["steps"];
}

export class Topics {
  readonly #clock: Clock;
  readonly #known = new Map<number, BatchFacts>();
  readonly #selectBatch: StatementSync;
  readonly #insert: StatementSync;
  readonly #select: StatementSync;
  readonly #selectTopics: StatementSync;
  readonly #selectGroups: StatementSync;
  readonly #selectNames: StatementSync;
  readonly #selectOldest: StatementSync;
  readonly #drop: StatementSync;

  constructor(connection: Connection, clock: Clock) {
    this.#clock = clock;
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    this.#selectBatch = prepare("SELECT id, settings FROM batch WHERE num = ?");
    this.#insert = prepare(
      "INSERT INTO message (topic, id, batch, body, at) VALUES (?, ?, ?, ?, ?)",
    );
    this.#select = prepare(
      `SELECT position, topic, id, batch, body, at FROM message
       WHERE topic = ? AND position > ? ORDER BY position LIMIT ?`,
    );
    this.#selectTopics = prepare(
      `SELECT topic, sum(n) AS messages, max(first) AS firstPosition, max(last) AS lastPosition FROM (
         SELECT topic, count(*) AS n, min(position) AS first, max(position) AS last
         FROM message GROUP BY topic
         UNION ALL SELECT DISTINCT topic, 0, 0, 0 FROM reader WHERE topic IS NOT NULL)
       GROUP BY topic ORDER BY topic`,
    );
    this.#selectGroups = prepare(
      `SELECT name, position, (SELECT count(*) FROM message m
         WHERE m.topic = reader.topic AND m.position > reader.position) AS lag
       FROM reader WHERE topic = ? ORDER BY name`,
    );
    // A letter keeps its own message and no other.
    const held = `EXISTS (SELECT 1 FROM reader r JOIN undelivered u ON u.reader = r.name
      WHERE r.topic = :topic AND u.position = m.position)`;
    this.#selectOldest = prepare(
      `SELECT position, at, ${held} AS held FROM message m WHERE topic = :topic
         AND position <= coalesce((SELECT min(position) FROM reader WHERE topic = :topic), ${NEVER})
       ORDER BY position`,
    );
    this.#drop = prepare(
      `DELETE FROM message AS m WHERE topic = :topic AND position <= :last AND NOT ${held}`,
    );
    // A step from each name to the next one, as counting what is between them would be dear.
    this.#selectNames = prepare(
      `WITH RECURSIVE name (topic) AS (
         SELECT min(topic) FROM message
         UNION ALL SELECT (SELECT min(m.topic) FROM message m WHERE m.topic > name.topic)
         FROM name WHERE name.topic IS NOT NULL)
       SELECT topic FROM name WHERE topic IS NOT NULL`,
    );
  }

  /** What the items of a chunk leave, with the effect that makes their outcomes. */
  write({ batch, step, start }: HeldRow, effect: ChunkEffect): void {
    if (!hasMessages(effect)) return;
    const { id, steps } = this.#know(batch);
    const settings = steps[step];
    const errorsTopic = settings?.errorsTopic ?? null;
    const origin = { batch: id, step, stepName: settings?.name ?? "", errorsTopic, start };
    const at = this.#clock.wallMs();
    for (const { topic, id: name, batch: of, body } of listMessages(origin, effect)) {
      this.#insert.run(topic, name, of, body, at);
    }
  }

  /** A batch's settings never change, and its number is never given to another. */
  #know(num: number): BatchFacts {
    const known = this.#known.get(num);
    if (known !== undefined) return known;
    const row = this.#selectBatch.get(num) as { id: string; settings: string };
    const facts = { id: row.id, steps: (JSON.parse(row.settings) as BatchSettings).steps };
    if (this.#known.size >= KNOWN_BATCHES_MAX) this.#known.clear();
    this.#known.set(num, facts);
    return facts;
  }

  read(topic: string, after: number, limit: number): StoredMessage[] {
    const page: StoredMessage[] = [];
    let chars = 0;
    for (const row of this.#select.iterate(topic, after, limit)) {
      const message = row as unknown as StoredMessage;
      chars += message.body.length;
      if (page.length > 0 && chars > PAGE_CHARS_MAX) break;
      page.push(message);
    }
    return page;
  }

  list(): TopicView[] {
    type Row = Omit<TopicView, "groups">;
    return (this.#selectTopics.all() as unknown as Row[]).map((row) => ({
      ...row,
      groups: this.#listGroups(row.topic),
    }));
  }

  #listGroups(topic: string): GroupView[] {
    type Row = { readonly name: string; readonly position: number; readonly lag: number };
    return (this.#selectGroups.all(topic) as unknown as Row[]).map(({ name, position, lag }) => ({
      group: readGroupName(name)?.group ?? name,
      position,
      lag,
    }));
  }

  /** How many messages were written before a time and are owed to nobody. */
  countOld(before: number): number {
    const counts = this.#listNames().map((topic) => this.#findOld(topic, before, Infinity).count);
    return counts.reduce((sum, count) => sum + count, 0);
  }

  /** Removes them, at most so many. */
  dropOld(before: number, budget: number): number {
    let dropped = 0;
    for (const topic of this.#listNames()) {
      if (dropped >= budget) break;
      const { count, last } = this.#findOld(topic, before, budget - dropped);
      if (count > 0) dropped += Number(this.#drop.run({ topic, last }).changes);
    }
    return dropped;
  }

  /**
   * From the beginning of a topic up to the first message that is too young or owed to a group: the
   * look ends there, or when there are enough.
   */
  #findOld(topic: string, before: number, budget: number): { count: number; last: number } {
    type Row = { readonly position: number; readonly at: number; readonly held: number };
    let [count, last] = [0, 0];
    for (const row of this.#selectOldest.iterate({ topic })) {
      const { position, at, held } = row as unknown as Row;
      if (at >= before || count >= budget) break;
      if (held === 0) count++;
      last = position;
    }
    return { count, last };
  }

  #listNames(): string[] {
    return (this.#selectNames.all() as unknown as { topic: string }[]).map(({ topic }) => topic);
  }
}
