/** Messages about items that a stopped batch never sent, written a few at a time. */
import { getOutcome, type OutcomeMap, PENDING } from "../../../core/items/outcome-map.ts";
import {
  listUnsent,
  UNSENT_PER_COMMIT,
  type UnsentOrigin,
  type UnsentPage,
} from "../../../core/events/unsent.ts";
import { type Act, together } from "../dialect/act.ts";
import { statement } from "../dialect/statement.ts";
import type { RuleTransaction } from "../dialect/transaction.ts";
import {
  type BatchFacts,
  describeUnsentOrigin,
  type KnownBatches,
  type StoppedRow,
} from "./message-origin.ts";
import { addMessages } from "./topics.ts";

/** Stopped batches for which one sweep writes messages. */
const BATCHES_MAX = 8;

const STOPPED = `SELECT num, step, drive, unsent_after FROM batch /*sqlite INDEXED BY batch_unsent*/
  WHERE unsent_after IS NOT NULL`;
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

/** Whether some unsent items still have no message. */
export function* hasUnsent(tx: RuleTransaction): Act<boolean> {
  return (yield* tx.get(SELECT_STOPPED, 1)) !== undefined;
}

/** Some of their batches. */
export function* listStopped(tx: RuleTransaction): Act<number[]> {
  const rows = yield* tx.all<StoppedRow>(SELECT_STOPPED, BATCHES_MAX);
  return rows.map(({ num }) => num);
}

/** Continues the messages of a batch that ended early. */
export function* writeUnsent(tx: RuleTransaction, known: KnownBatches, num: number): Act<void> {
  if (!(yield* tx.lockBatch(num))) return;
  const [row, facts] = yield* together(
    tx.get<StoppedRow>(FIND_STOPPED, num),
    known.know(tx, [num]),
  );
  // The batch may have been revived, or another process has written its messages.
  if (row === undefined) return;
  const origin = describeUnsentOrigin(facts.get(num) as BatchFacts, row);
  const { messages, next } = yield* listMessages(tx, origin, row);
  addMessages(tx, messages);
  tx.send(SAVE_UNSENT, next, num);
}

/** Twice: the first pass finds the chunks whose items are needed. */
function* listMessages(
  tx: RuleTransaction,
  origin: UnsentOrigin,
  { num, step, unsent_after: after }: StoppedRow,
): Act<UnsentPage> {
  const rows = yield* tx.all<ChunkRow>(SELECT_CHUNKS, num, step, after + 1);
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
    const found = yield* tx.get<{ items: Uint8Array }>(SELECT_MANIFEST, num, step, chunk);
    if (found !== undefined) lines.set(chunk, pickPending(found.items, outcomes));
  }
  return listUnsent(
    origin,
    rows.map((chunk) => ({ ...chunk, readLines: () => lines.get(chunk.chunk) ?? null })),
    after,
  );
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
