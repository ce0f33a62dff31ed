/** Messages of topics in SQL: written with outcomes, read by groups, removed by retention. */
import type { StatementSync } from "node:sqlite";
import { readGroupName } from "../../../core/events/reader-name.ts";
import { hasMessages, listMessages, type NewMessage } from "../../../core/events/topic.ts";
import type { ChunkEffect } from "../../../core/items/tracked-item.ts";
import { listUnsent, UNSENT_PER_COMMIT, type UnsentChunk } from "../../../core/events/unsent.ts";
import type { Clock } from "../../../ports/clock.ts";
import {
  type GroupView,
  PAGE_CHARS_MAX,
  type StoredMessage,
  type TopicView,
} from "../../../ports/store/topic-store.ts";
import {
  type BatchFacts,
  describeOrigin,
  describeUnsentOrigin,
  KnownBatches,
  type StoppedRow,
} from "../../sql/message-origin.ts";
import type { HeldRow } from "../../sql/step-changes.ts";
import type { Connection } from "../connection/connection.ts";

/** Above every position. */
const NEVER = "9223372036854775807";

/** Stopped batches for which one sweep writes `unsent` messages. */
const UNSENT_BATCHES_MAX = 8;

export class Topics {
  readonly #clock: Clock;
  readonly #known = new KnownBatches();
  readonly #selectBatch: StatementSync;
  readonly #insert: StatementSync;
  readonly #select: StatementSync;
  readonly #selectTopics: StatementSync;
  readonly #selectGroups: StatementSync;
  readonly #findGroup: StatementSync;
  readonly #selectNames: StatementSync;
  readonly #selectOldest: StatementSync;
  readonly #drop: StatementSync;
  readonly #selectStopped: StatementSync;
  readonly #selectChunks: StatementSync;
  readonly #selectManifest: StatementSync;
  readonly #saveUnsent: StatementSync;

  constructor(connection: Connection, clock: Clock) {
    this.#clock = clock;
    const prepare = (sql: string): StatementSync => connection.prepare(sql);
    this.#selectBatch = prepare("SELECT id, settings FROM batch WHERE num = ?");
    this.#insert = prepare(
      "INSERT INTO message (topic, id, batch, body, traceparent, at) VALUES (?, ?, ?, ?, ?, ?)",
    );
    this.#select = prepare(
      `SELECT position, topic, id, batch, body, traceparent, at FROM message
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
    this.#findGroup = prepare("SELECT 1 FROM reader WHERE topic = ? LIMIT 1");
    // An undelivered message keeps only itself.
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
    this.#selectStopped = prepare(
      `SELECT num, step, drive, unsent_after FROM batch INDEXED BY batch_unsent
       WHERE unsent_after IS NOT NULL ORDER BY num LIMIT ?`,
    );
    // No more chunks than a page of messages can come from.
    this.#selectChunks = prepare(
      `SELECT chunk, start, finish AS "end", outcomes FROM chunk
       WHERE batch = ? AND step = ? AND finish > ? AND state <> 'settled'
       ORDER BY chunk LIMIT ${UNSENT_PER_COMMIT + 1}`,
    );
    this.#selectManifest = prepare(
      "SELECT items FROM manifest WHERE batch = ? AND step = ? AND chunk = ?",
    );
    this.#saveUnsent = prepare("UPDATE batch SET unsent_after = ? WHERE num = ?");
    // Jumps from each name to the next, because scanning all rows in between would be slow.
    this.#selectNames = prepare(
      `WITH RECURSIVE name (topic) AS (
         SELECT min(topic) FROM message
         UNION ALL SELECT (SELECT min(m.topic) FROM message m WHERE m.topic > name.topic)
         FROM name WHERE name.topic IS NOT NULL)
       SELECT topic FROM name WHERE topic IS NOT NULL`,
    );
  }

  /** Writes the messages of a chunk's items, with the effect that sets their outcomes. */
  write(row: HeldRow, effect: ChunkEffect): void {
    if (!hasMessages(effect)) return;
    const origin = describeOrigin(this.#know(row.batch), row);
    const at = this.#clock.wallMs();
    for (const message of listMessages(origin, effect)) this.#write(message, at);
  }

  /** A message that does not belong to an item. */
  add(message: NewMessage): void {
    this.#write(message, this.#clock.wallMs());
  }

  #write({ topic, id, batch, body, traceparent }: NewMessage, at: number): void {
    this.#insert.run(topic, id, batch, body, traceparent, at);
  }

  /** Whether some unsent items still have no `unsent` message. */
  hasUnsent(): boolean {
    return this.#selectStopped.get(1) !== undefined;
  }

  /** Continues the `unsent` messages of batches that ended early. */
  writeUnsent(): void {
    const rows = this.#selectStopped.all(UNSENT_BATCHES_MAX) as unknown as StoppedRow[];
    for (const row of rows) {
      const { num, step, unsent_after: after } = row;
      const origin = describeUnsentOrigin(this.#know(num), row);
      const { messages, next } = listUnsent(origin, this.#iterateChunks(num, step, after), after);
      const at = this.#clock.wallMs();
      for (const message of messages) this.#write(message, at);
      this.#saveUnsent.run(next, num);
    }
  }

  *#iterateChunks(num: number, step: number, after: number): Generator<UnsentChunk> {
    type Row = Omit<UnsentChunk, "readLines"> & { readonly chunk: number };
    // Read completely first: other statements run meanwhile, and a page has few chunks.
    for (const row of this.#selectChunks.all(num, step, after + 1) as unknown as Row[]) {
      const readLines = (): readonly string[] | null => {
        const found = this.#selectManifest.get(num, step, row.chunk) as
          | { items: Uint8Array }
          | undefined;
        return found === undefined ? null : new TextDecoder().decode(found.items).split("\n");
      };
      yield { ...row, readLines };
    }
  }

  #know(num: number): BatchFacts {
    const known = this.#known.find(num);
    if (known !== undefined) return known;
    const row = this.#selectBatch.get(num) as { id: string; settings: string };
    return this.#known.remember(num, row);
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

  hasGroups(topic: string): boolean {
    return this.#findGroup.get(topic) !== undefined;
  }

  #listGroups(topic: string): GroupView[] {
    type Row = { readonly name: string; readonly position: number; readonly lag: number };
    return (this.#selectGroups.all(topic) as unknown as Row[]).map(({ name, position, lag }) => ({
      group: readGroupName(name)?.group ?? name,
      position,
      lag,
    }));
  }

  /** How many messages are older than a time and needed by no reader. */
  countOld(before: number): number {
    const counts = this.#listNames().map((topic) => this.#findOld(topic, before, Infinity).count);
    return counts.reduce((sum, count) => sum + count, 0);
  }

  /** Removes them, up to a number. */
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
   * From the beginning of a topic up to the first message that is too young or that a group still
   * needs; stops there, or when there are enough.
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
