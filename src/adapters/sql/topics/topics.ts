/** Messages of topics: added with outcomes, read by groups. */
import { readGroupName } from "../../../core/events/reader-name.ts";
import type { NewMessage } from "../../../core/events/topic.ts";
import {
  PAGE_CHARS_MAX,
  type StoredMessage,
  type TopicView,
} from "../../../ports/store/topic-store.ts";
import { type Act, together } from "../dialect/act.ts";
import { statement } from "../dialect/statement.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";

/** Above every position. */
export const NEVER = "9223372036854775807";

/** A character takes at most this many bytes for each of its UTF-16 units. */
const BYTES_PER_CHAR_MAX = 3;
/** Messages, and the size of their bodies, that one statement writes. */
const INSERT_ROWS_MAX = 5_000;
const INSERT_CHARS_MAX = PAGE_CHARS_MAX;

const INSERT = statement(
  `INSERT INTO message (at, topic, id, batch, body, traceparent)
   /*sqlite VALUES ($1, $2, $3, $4, $5, $6)*/
   /*postgres SELECT $1::bigint, topic, id, batch, body, traceparent
     FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[]) WITH ORDINALITY
       AS n(topic, id, batch, body, traceparent, nth) ORDER BY nth*/`,
);
// A server does not send messages beyond the size of a page. The size is known without reading the
// bodies.
const SELECT = statement(
  `SELECT position, topic, id, batch, body, traceparent, at FROM
   /*sqlite message WHERE topic = $1 AND position > $2 ORDER BY position LIMIT $3*/
   /*postgres (
     SELECT m.*, sum(octet_length(body)) OVER (ORDER BY position) - octet_length(body) AS before
     FROM (SELECT * FROM message WHERE topic = $1 AND position > $2 ORDER BY position LIMIT $3) AS m
   ) AS page WHERE before <= ${PAGE_CHARS_MAX * BYTES_PER_CHAR_MAX} ORDER BY position*/`,
);
const SELECT_TOPICS = statement(
  `SELECT topic, CAST(sum(n) AS bigint) AS messages, max(first) AS "firstPosition",
     max(last) AS "lastPosition" FROM (
       SELECT topic, count(*) AS n, min(position) AS first, max(position) AS last
       FROM message /*postgres WHERE position IS NOT NULL*/ GROUP BY topic
       UNION ALL SELECT DISTINCT topic, 0, 0, 0 FROM reader WHERE topic IS NOT NULL) AS t
   GROUP BY topic ORDER BY topic`,
);
const SELECT_GROUPS = statement(
  `SELECT topic, name, position, (SELECT count(*) FROM message m
     WHERE m.topic = reader.topic AND m.position > reader.position) AS lag
   FROM reader WHERE topic IS NOT NULL ORDER BY topic, name`,
);
const FIND_GROUP = statement("SELECT 1 FROM reader WHERE topic = $1 LIMIT 1");

export function addMessages(tx: RuleTransaction, messages: readonly NewMessage[]): void {
  if (messages.length === 0) return;
  const at = tx.wallMs;
  // Lists of rows would cost a file a third of the writing.
  if (tx.isRemote) for (const some of divide(messages)) sendSome(tx, at, some);
  else {
    for (const { topic, id, batch, body, traceparent } of messages) {
      tx.send(INSERT, at, topic, id, batch, body, traceparent);
    }
  }
  tx.notify();
}

function sendSome(tx: RuleTransaction, at: number, some: readonly NewMessage[]): void {
  tx.send(
    INSERT,
    at,
    some.map(({ topic }) => topic),
    some.map(({ id }) => id),
    some.map(({ batch }) => batch),
    some.map(({ body }) => body),
    some.map(({ traceparent }) => traceparent),
  );
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

export function readMessages(
  tx: RuleTransaction,
  topic: string,
  after: number,
  limit: number,
): Act<StoredMessage[]> {
  const page = { sizeMax: PAGE_CHARS_MAX, measure: ({ body }: StoredMessage) => body.length };
  return tx.page(SELECT, [topic, after, limit], page);
}

export function* listTopics(tx: RuleTransaction): Act<TopicView[]> {
  type GroupRow = {
    readonly topic: string;
    readonly name: string;
    readonly position: number;
    readonly lag: number;
  };
  const [topics, rows] = yield* together(
    tx.all<Omit<TopicView, "groups">>(SELECT_TOPICS),
    tx.all<GroupRow>(SELECT_GROUPS),
  );
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

export function* hasGroups(tx: RuleTransaction, topic: string): Act<boolean> {
  return (yield* tx.get(FIND_GROUP, topic)) !== undefined;
}
