/** Messages that no reader needs any more, for retention. */
import { type Act, answered, together } from "../dialect/act.ts";
import { composeAnyOf, statement } from "../dialect/statement.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";
import { NEVER } from "./topics.ts";

/** Topics whose first message is older than $1. */
const SELECT_NAMES = statement(
  // Jumps from each name to the next, because scanning all rows in between would be slow.
  `WITH RECURSIVE name (topic) AS (
     SELECT min(topic) FROM message /*postgres WHERE position IS NOT NULL*/
     UNION ALL SELECT (SELECT min(m.topic) FROM message m
       WHERE m.topic > name.topic /*postgres AND m.position IS NOT NULL*/)
     FROM name WHERE name.topic IS NOT NULL)
   SELECT topic FROM name WHERE topic IS NOT NULL AND (
     SELECT m.at FROM message m WHERE m.topic = name.topic /*postgres AND m.position IS NOT NULL*/
     ORDER BY m.position LIMIT 1) < $1`,
);
// Blocks a reader from moving back until it is decided which messages are removed.
const KEEP_GROUPS = statement("SELECT 1 FROM reader WHERE topic = $1 ORDER BY name FOR SHARE");
// An undelivered message keeps only itself.
const UNDELIVERED = "reader r JOIN undelivered u ON u.reader = r.name WHERE r.topic = $1";
/** From the beginning of a topic: messages that no group still needs. */
const OLDEST = `SELECT position, at,
    EXISTS (SELECT 1 FROM ${UNDELIVERED} AND u.position = m.position) AS held
  FROM message m WHERE topic = $1
    AND position <= coalesce((SELECT min(position) FROM reader WHERE topic = $1), ${NEVER})
  ORDER BY position`;
/** Up to the first one that is too young. */
const OLD = `FROM oldest WHERE NOT held
  AND position < coalesce((SELECT min(position) FROM oldest WHERE at >= $2), ${NEVER})`;
const COUNT = statement(`WITH oldest AS MATERIALIZED (${OLDEST}) SELECT count(*) AS n ${OLD}`);
const DROP = statement(
  `WITH oldest AS MATERIALIZED (${OLDEST} LIMIT $3 + (SELECT count(*) FROM ${UNDELIVERED}))
   DELETE FROM message WHERE topic = $1
     AND position ${composeAnyOf(`SELECT position ${OLD} ORDER BY position LIMIT $3`)}`,
);

/** How many messages are older than a time and needed by no reader. */
export function* countOldMessages(tx: RuleTransaction, before: number): Act<number> {
  const topics = yield* listNames(tx, before);
  const counts = topics.map((topic) => tx.get<{ readonly n: number }>(COUNT, topic, before));
  return (yield* together(...counts)).reduce((sum, row) => sum + (row?.n ?? 0), 0);
}

/** Removes them, up to a number. */
export function* dropOldMessages(tx: RuleTransaction, before: number, budget: number): Act<number> {
  let dropped = 0;
  for (const topic of yield* listNames(tx, before)) {
    if (dropped >= budget) break;
    const [, count] = yield* together(
      tx.isRemote ? tx.run(KEEP_GROUPS, topic) : answered(0),
      tx.run(DROP, topic, before, budget - dropped),
    );
    dropped += count;
  }
  return dropped;
}

function* listNames(tx: RuleTransaction, before: number): Act<string[]> {
  const rows = yield* tx.all<{ readonly topic: string }>(SELECT_NAMES, before);
  return rows.map(({ topic }) => topic);
}
