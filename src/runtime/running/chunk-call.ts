/** One call of `processChunk`: many items in, one outcome for each out, and none lost. */
import { TransientError, PermanentError } from "../../core/base/errors.ts";
import { listSecrets, makeRedact } from "../../core/base/redact.ts";
import type { ChunkRun } from "../chunk/chunk-run.ts";
import { checkItem } from "../pipeline/item-check.ts";
import { HandlerCall, makeIdempotencyKey } from "./item-context.ts";
import { readOutcome } from "../pipeline/outcomes.ts";
import { redactError } from "../system/redact-error.ts";
import type { ChunkContext, ChunkItem } from "../pipeline/contexts.ts";
import type { Step } from "../pipeline/step.ts";
import type { Slot } from "./slot.ts";

export interface ChunkCallListener {
  /** Its right to start has expired: the items go back with their chunk. */
  isLate(): boolean;
  note(index: number, item: unknown, outcome: unknown): void;
  fail(index: number, item: unknown, error: unknown): void;
}

interface Entry {
  /** Position in the chunk. */
  readonly position: number;
  readonly given: ChunkItem<unknown>;
}

export async function callForChunk(
  step: Step,
  run: ChunkRun,
  indexes: readonly number[],
  slot: Slot,
  listener: ChunkCallListener,
): Promise<void> {
  // From the beginning: checking the items counts as the handler's time.
  const handlerCall = new HandlerCall(run, step, undefined, 0);
  slot.handlerCall = handlerCall;
  const entries = await readEntries(step, run, indexes, slot, listener);
  if (entries.length === 0 || slot.abandoned || handlerCall.stopReason !== null) return;
  if (listener.isLate()) return;
  const find = makeFinder(run, entries);
  const context: ChunkContext = {
    batch: run.facts.batch,
    lane: run.facts.lane,
    step: step.name,
    fence: run.facts.fence,
    final: run.lease.final,
    // A getter, so that a signal is made only for a handler that asks for one.
    get signal(): AbortSignal {
      return handlerCall.signal;
    },
    get cpu(): ChunkContext["cpu"] {
      return handlerCall.cpu;
    },
    emit: (item, topic, message) =>
      handlerCall.emitFor(find("emit", item).position, topic, message),
    commitWith: (item, sql, values) =>
      handlerCall.commitFor(find("commitWith", item).position, sql, values),
    record: (item, state, details) => {
      const { position, given } = find("record", item);
      handlerCall.recordFor(position, given.key, state, details);
    },
  };
  let answers: readonly unknown[];
  try {
    const given = entries.map((entry) => entry.given);
    const answered = handlerCall.invokeForMany(given.length, () =>
      step.processChunk?.(given, context),
    );
    answers = checkAnswers(await answered, given.length);
  } catch (error) {
    if (slot.abandoned) return;
    handlerCall.end(error);
    // The handler gets all these items, and its error may quote any of them.
    const redact = makeRedact(entries.flatMap(({ given }) => listSecrets(given.item)));
    const safe = redactError(error, redact);
    for (const { position, given } of entries) listener.fail(position, given.item, safe);
    return;
  }
  if (slot.abandoned) return;
  handlerCall.end();
  for (const [at, { position, given }] of entries.entries()) {
    noteAnswer(position, given, answers[at], listener);
  }
}

/** Finds the entry of an item that a handler passes back. */
type Find = (what: keyof typeof MISTAKEN, item: unknown) => Entry;

const MISTAKEN = {
  emit: "BAD_MESSAGE",
  commitWith: "BAD_STATEMENT",
  record: "BAD_DETAILS",
} as const;

/** An item is identified by its number, so a copy of the passed object works too. */
function makeFinder(run: ChunkRun, entries: readonly Entry[]): Find {
  /** Made on the first use. */
  let known: ReadonlyMap<number, Entry> | null = null;
  return (what, item) => {
    known ??= new Map(entries.map((entry) => [entry.position, entry]));
    const at = Number((item as Partial<ChunkItem<unknown>> | null)?.index) - run.lease.start;
    const entry = known.get(at);
    if (entry !== undefined) return entry;
    throw new PermanentError(`${what} takes one of the items that processChunk was called with`, {
      code: MISTAKEN[what],
    });
  };
}

function noteAnswer(
  position: number,
  { item, index, key }: ChunkItem<unknown>,
  answer: unknown,
  listener: ChunkCallListener,
): void {
  const named = key === null ? `item ${index}` : `item ${index} (key ${key})`;
  try {
    if (answer === undefined) {
      throw new TransientError(`processChunk returned no outcome for ${named}`, {
        code: "MISSING_OUTCOME",
      });
    }
    if (readOutcome(answer) === null) {
      throw new PermanentError(
        `processChunk returned something other than succeeded(), skipped(), failed() or later() for ${named}`,
        { code: "BAD_OUTCOME" },
      );
    }
    listener.note(position, item, answer);
  } catch (error) {
    listener.fail(position, item, error);
  }
}

async function readEntries(
  step: Step,
  run: ChunkRun,
  indexes: readonly number[],
  slot: Slot,
  listener: ChunkCallListener,
): Promise<Entry[]> {
  const entries: Entry[] = [];
  for (const position of indexes) {
    let item: unknown;
    try {
      item = run.items.at(position);
      if (step.itemSchema !== null) item = await checkItem(step.itemSchema, item);
      if (slot.abandoned) return [];
      const index = run.lease.start + position;
      const given = {
        item,
        index,
        key: step.readKey(item),
        attempt: run.countAttempts(position) + 1,
        drive: run.getDrive(position),
        idempotencyKey: makeIdempotencyKey(run.facts, index),
      };
      entries.push({ position, given });
    } catch (error) {
      if (slot.abandoned) return [];
      listener.fail(position, item, error);
    }
  }
  return entries;
}

function checkAnswers(answers: unknown, items: number): readonly unknown[] {
  if (!Array.isArray(answers)) {
    throw new PermanentError("processChunk must return a list with one outcome for each item", {
      code: "BAD_OUTCOME",
    });
  }
  if (answers.length > items) {
    throw new PermanentError(
      `processChunk returned ${answers.length} outcomes for ${items} items, so none can be trusted`,
      { code: "BAD_OUTCOME" },
    );
  }
  return answers;
}
