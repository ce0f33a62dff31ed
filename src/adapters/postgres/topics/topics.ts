/** Messages of topics in SQL: written with outcomes, read by groups, removed by retention. */
import { getOutcome, type OutcomeMap, PENDING } from "../../../core/items/outcome-map.ts";
import { readGroupName } from "../../../core/events/reader-name.ts";
import { hasMessages, listMessages, type NewMessage } from "../../../core/events/topic.ts";
import type { ChunkEffect } from "../../../core/items/tracked-item.ts";
import {
  listUnsent,
  UNSENT_PER_COMMIT,
  type UnsentOrigin,
  type UnsentPage,
} from "../../../core/events/unsent.ts";
import {
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
import { lockBatch } from "../connection/batch-lock.ts";
import type { Connection } from "../connection/connection.ts";
import { statement } from "../connection/statement.ts";
import type { Transaction } from "../connection/transaction.ts";

/** Above every position. */
export const NEVER = "9223372036854775807";

/** Stopped batches for which one sweep writes `unsent` messages. */
const UNSENT_BATCHES_MAX = 8;
/** A character takes at most this many bytes for each of its UTF-16 units. */
const BYTES_PER_CHAR_MAX = 3;
/** Messages, and the size of their bodies, that one statement writes. */
const INSERT_ROWS_MAX = 5_000;
const INSERT_CHARS_MAX = PAGE_CHARS_MAX;

const SELECT_BATCHES = statement(
  "SELECT num, id, settings FROM batch WHERE num = ANY($1::bigint[])",
);
const INSERT = statement(
  `INSERT INTO message (topic, id, batch, body, traceparent, at)
   SELECT topic, id, batch, body, traceparent, $6::bigint
   FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) WITH ORDINALITY
     AS n(topic, id, batch, body, traceparent, nth) ORDER BY nth`,
);
const SELECT = statement(
  // Messages beyond the size of a page are not sent. The size is known without reading the bodies.
  `SELECT position, topic, id, batch, body, traceparent, at FROM (
     SELECT m.*, sum(octet_length(body)) OVER (ORDER BY position) - octet_length(body) AS before
     FROM (SELECT * FROM message WHERE topic = $1 AND position > $2 ORDER BY position LIMIT $3) AS m
   ) AS page WHERE before <= ${PAGE_CHARS_MAX * BYTES_PER_CHAR_MAX} ORDER BY position`,
);
const SELECT_TOPICS = statement(
  `SELECT topic, sum(n)::bigint AS messages, max(first) AS "firstPosition",
     max(last) AS "lastPosition" FROM (
       SELECT topic, count(*) AS n, min(position) AS first, max(position) AS last
       FROM message WHERE position IS NOT NULL GROUP BY topic
       UNION ALL SELECT DISTINCT topic, 0, 0, 0 FROM reader WHERE topic IS NOT NULL) AS t
   GROUP BY topic ORDER BY topic`,
);
const SELECT_GROUPS = statement(
  `SELECT topic, name, position, (SELECT count(*) FROM message m
     WHERE m.topic = reader.topic AND m.position > reader.position) AS lag
   FROM reader WHERE topic IS NOT NULL ORDER BY topic, name`,
);
const SELECT_NAMES = statement(
  // Jumps from each name to the next, because scanning all rows in between would be slow.
  `WITH RECURSIVE name (topic) AS (
     SELECT min(topic) FROM message WHERE position IS NOT NULL
     UNION ALL SELECT (SELECT min(m.topic) FROM message m
       WHERE m.position IS NOT NULL AND m.topic > name.topic)
     FROM name WHERE name.topic IS NOT NULL)
   SELECT topic FROM name WHERE topic IS NOT NULL`,
);
// Blocks a reader from moving back until it is decided which messages are removed.
const FIND_GROUP = statement("SELECT 1 FROM reader WHERE topic = $1 LIMIT 1");
const KEEP_GROUPS = statement("SELECT 1 FROM reader WHERE topic = $1 ORDER BY name FOR SHARE");
// An undelivered message keeps only itself.
const LETTERS = "reader r JOIN undelivered u ON u.reader = r.name WHERE r.topic = $1";
/** From the beginning of a topic: messages that no group still needs. */
const OLDEST = `SELECT position, at,
    EXISTS (SELECT 1 FROM ${LETTERS} AND u.position = m.position) AS held
  FROM message m WHERE topic = $1
    AND position <= coalesce((SELECT min(position) FROM reader WHERE topic = $1), ${NEVER})
  ORDER BY position`;
/** Up to the first one that is too young. */
const OLD = `FROM oldest WHERE NOT held
  AND position < coalesce((SELECT min(position) FROM oldest WHERE at >= $2), ${NEVER})`;
const COUNT_OLD = statement(`WITH oldest AS MATERIALIZED (${OLDEST}) SELECT count(*) AS n ${OLD}`);
const DROP_OLD = statement(
  `WITH oldest AS MATERIALIZED (${OLDEST} LIMIT $3 + (SELECT count(*) FROM ${LETTERS}))
   DELETE FROM message WHERE topic = $1 AND position = ANY(ARRAY(
     SELECT position ${OLD} ORDER BY position LIMIT $3))`,
);
const STOPPED = "SELECT num, step, drive, unsent_after FROM batch WHERE unsent_after IS NOT NULL";
const SELECT_STOPPED = statement(`${STOPPED} ORDER BY num LIMIT $1`);
const FIND_STOPPED = statement(`${STOPPED} AND num = $1`);
// No more chunks than a page of messages can come from.
const SELECT_CHUNKS = statement(
  `SELECT chunk, start, finish AS "end", outcomes FROM chunk
   WHERE batch = $1 AND step = $2 AND finish > $3 AND state <> 'settled'
   ORDER BY chunk LIMIT ${UNSENT_PER_COMMIT + 1}`,
);
const SELECT_MANIFEST = statement(
  "SELECT items FROM manifest WHERE batch = $1 AND step = $2 AND chunk = $3",
);
const SAVE_UNSENT = statement("UPDATE batch SET unsent_after = $1 WHERE num = $2");

interface ChunkRow {
  readonly chunk: number;
  readonly start: number;
  readonly end: number;
  readonly outcomes: OutcomeMap;
}

export class Topics {
  readonly #known = new KnownBatches();

  /** Collects the messages of one commit's chunks, to write them together. */
  begin(): MessageDrafts {
    return new MessageDrafts(this.#known);
  }

  /** Messages that do not belong to items. */
  add(tx: Transaction, messages: readonly NewMessage[]): void {
    insert(tx, messages);
  }

  async hasGroups(tx: Transaction, topic: string): Promise<boolean> {
    return (await tx.get(FIND_GROUP, topic)) !== undefined;
  }

  /** Whether some unsent items still have no `unsent` message. */
  async hasUnsent(tx: Transaction): Promise<boolean> {
    return (await tx.get(SELECT_STOPPED, 1)) !== undefined;
  }

  /** Continues the `unsent` messages of batches that ended early, in one transaction each. */
  async writeUnsent(connection: Connection): Promise<void> {
    const rows = await connection.read((tx) =>
      tx.all<StoppedRow>(SELECT_STOPPED, UNSENT_BATCHES_MAX),
    );
    for (const { num } of rows) await connection.write((tx) => this.#writeUnsentOf(tx, num));
  }

  async #writeUnsentOf(tx: Transaction, num: number): Promise<void> {
    if (!(await lockBatch(tx, num))) return;
    const [row, facts] = await Promise.all([
      tx.get<StoppedRow>(FIND_STOPPED, num),
      know(tx, this.#known, [num]),
    ]);
    // The batch may have been revived, or another process has written its messages.
    if (row === undefined) return;
    const origin = describeUnsentOrigin(facts.get(num) as BatchFacts, row);
    const { messages, next } = await this.#listUnsent(tx, origin, row);
    insert(tx, messages);
    tx.send(SAVE_UNSENT, next, num);
  }

  /** Twice: the first pass finds the chunks whose items are needed. */
  async #listUnsent(tx: Transaction, origin: UnsentOrigin, row: StoppedRow): Promise<UnsentPage> {
    const { num, step, unsent_after: after } = row;
    const rows = await tx.all<ChunkRow>(SELECT_CHUNKS, num, step, after + 1);
    const needed = new Set<ChunkRow>();
    const note = (chunk: ChunkRow): null => {
      needed.add(chunk);
      return null;
    };
    listUnsent(
      origin,
      rows.map((chunk) => ({ ...chunk, readLines: () => note(chunk) })),
      after,
    );
    const lines = new Map<number, readonly string[]>();
    for (const { chunk, outcomes } of needed) {
      const found = await tx.get<{ items: Uint8Array }>(SELECT_MANIFEST, num, step, chunk);
      if (found !== undefined) lines.set(chunk, pickPending(found.items, outcomes));
    }
    return listUnsent(
      origin,
      rows.map((chunk) => ({ ...chunk, readLines: () => lines.get(chunk.chunk) ?? null })),
      after,
    );
  }

  async read(
    tx: Transaction,
    topic: string,
    after: number,
    limit: number,
  ): Promise<StoredMessage[]> {
    const page: StoredMessage[] = [];
    let chars = 0;
    for (const message of await tx.all<StoredMessage>(SELECT, topic, after, limit)) {
      chars += message.body.length;
      if (page.length > 0 && chars > PAGE_CHARS_MAX) break;
      page.push(message);
    }
    return page;
  }

  async list(tx: Transaction): Promise<TopicView[]> {
    type GroupRow = { topic: string; name: string; position: number; lag: number };
    const [topics, rows] = await Promise.all([
      tx.all<Omit<TopicView, "groups">>(SELECT_TOPICS),
      tx.all<GroupRow>(SELECT_GROUPS),
    ]);
    const groups = Map.groupBy(rows, ({ topic }) => topic);
    return topics.map((row) => ({
      ...row,
      groups: (groups.get(row.topic) ?? []).map(({ name, position, lag }) => ({
        group: readGroupName(name)?.group ?? name,
        position,
        lag,
      })),
    }));
  }

  /** How many messages are older than a time and needed by no reader. */
  async countOld(tx: Transaction, before: number): Promise<number> {
    const topics = await this.#listNames(tx);
    const counts = topics.map((topic) => tx.get<{ n: number }>(COUNT_OLD, topic, before));
    return (await Promise.all(counts)).reduce((sum, row) => sum + (row?.n ?? 0), 0);
  }

  /** Removes them, up to a number. */
  async dropOld(tx: Transaction, before: number, budget: number): Promise<number> {
    let dropped = 0;
    for (const topic of await this.#listNames(tx)) {
      if (dropped >= budget) break;
      const [, count] = await Promise.all([
        tx.run(KEEP_GROUPS, topic),
        tx.run(DROP_OLD, topic, before, budget - dropped),
      ]);
      dropped += count;
    }
    return dropped;
  }

  async #listNames(tx: Transaction): Promise<string[]> {
    return (await tx.all<{ topic: string }>(SELECT_NAMES)).map(({ topic }) => topic);
  }
}

/** The messages that items leave, collected over the chunks of one commit. */
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
    const [facts] = await Promise.all([know(tx, this.#known, nums), tx.begin()]);
    const messages = this.#drafts.flatMap(({ row, effect }) =>
      listMessages(describeOrigin(facts.get(row.batch) as BatchFacts, row), effect),
    );
    insert(tx, messages);
  }
}

/** The origins of these batches; reads unknown ones in one query. */
async function know(
  tx: Transaction,
  known: KnownBatches,
  nums: readonly number[],
): Promise<ReadonlyMap<number, BatchFacts>> {
  const facts = new Map<number, BatchFacts>();
  const unknown: number[] = [];
  for (const num of new Set(nums)) {
    const found = known.find(num);
    if (found === undefined) unknown.push(num);
    else facts.set(num, found);
  }
  if (unknown.length === 0) return facts;
  type Row = { readonly num: number; readonly id: string; readonly settings: string };
  for (const row of await tx.all<Row>(SELECT_BATCHES, unknown)) {
    facts.set(row.num, known.remember(row.num, row));
  }
  return facts;
}

function insert(tx: Transaction, messages: readonly NewMessage[]): void {
  if (messages.length === 0) return;
  for (const some of divide(messages)) {
    tx.send(
      INSERT,
      some.map(({ topic }) => topic),
      some.map(({ id }) => id),
      some.map(({ batch }) => batch),
      some.map(({ body }) => body),
      some.map(({ traceparent }) => traceparent),
      tx.wallMs,
    );
  }
  tx.notify();
}

/** Into parts that a statement can hold, however much the items of a commit emitted. */
function* divide(messages: readonly NewMessage[]): Generator<readonly NewMessage[]> {
  let [from, chars] = [0, 0];
  for (const [at, { body }] of messages.entries()) {
    const isFull = at - from >= INSERT_ROWS_MAX || chars + body.length > INSERT_CHARS_MAX;
    if (isFull && at > from) {
      yield messages.slice(from, at);
      [from, chars] = [at, 0];
    }
    chars += body.length;
  }
  yield messages.slice(from);
}

const LINE_END = 0x0a;

/** The lines of pending items, each at its position: the others are dropped. */
function pickPending(items: Uint8Array, outcomes: OutcomeMap): readonly string[] {
  const lines: string[] = [];
  const decoder = new TextDecoder();
  for (let from = 0; from <= items.length; ) {
    const found = items.indexOf(LINE_END, from);
    const end = found === -1 ? items.length : found;
    const isPending = getOutcome(outcomes, lines.length) === PENDING;
    lines.push(isPending ? decoder.decode(items.subarray(from, end)) : "");
    from = end + 1;
  }
  return lines;
}
