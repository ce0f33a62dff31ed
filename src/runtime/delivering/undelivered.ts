/** Letters of events and messages that were given up: found, listed, and handed over once more. */
import { describeError, SluiceError } from "../../core/base/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import type { UndeliveredPage, UndeliveredEvent } from "../../ports/store/delivery-store.ts";
import type { Store } from "../../ports/store/store.ts";
import { type Delivery, readStream } from "./stream.ts";
import type { Reader } from "./subscriber.ts";

export interface RedeliveryParts {
  readonly store: Store;
  readonly clock: Clock;
  /** Aborts when nobody waits for it any more. */
  readonly signal: AbortSignal;
}

const PAGE = 1_000;

/** Oldest first; of one subscriber, or of all. */
export async function* listLetters(
  store: Store,
  { reader }: Pick<UndeliveredPage, "reader"> = {},
): AsyncGenerator<UndeliveredEvent, void, void> {
  for (let afterId = 0; ; ) {
    const page = { afterId, limit: PAGE };
    const letters = await store.listUndelivered(reader === undefined ? page : { ...page, reader });
    yield* letters;
    const last = letters.at(-1);
    if (last === undefined || letters.length < PAGE) return;
    afterId = last.id;
  }
}

export async function findLetter(store: Store, id: number): Promise<UndeliveredEvent> {
  const [letter] = Number.isSafeInteger(id)
    ? await store.listUndelivered({ afterId: id - 1, limit: 1 })
    : [];
  if (letter?.id === id) return letter;
  throw new SluiceError("UNKNOWN_LETTER", `there is no undelivered letter ${String(id)}`, {
    hint: "`sluice topics undelivered` lists those that there are. It may have been delivered or discarded.",
  });
}

/** Hands the letter's event or message to whom it is for once, and drops the letter when that took it. */
export async function redeliverLetter(
  letter: UndeliveredEvent,
  reader: Reader,
  { store, clock, signal }: RedeliveryParts,
): Promise<void> {
  const delivery = await readDelivery(store, letter);
  try {
    await reader.deliver([delivery], { clock, signal });
  } catch (error) {
    const { code, message } = describeError(error);
    const { id: _id, givenUpAt: _at, ...kept } = letter;
    await store.keepUndelivered({ ...kept, attempts: letter.attempts + 1, code, message });
    throw error;
  }
  await store.dropUndelivered(letter.id);
}

async function readDelivery(store: Store, letter: UndeliveredEvent): Promise<Delivery> {
  const [delivery] = await readStream(store, letter.reader, letter.position - 1, 1);
  if (delivery?.position === letter.position) return delivery;
  throw new SluiceError("RECORD_GONE", `the record of ${letter.event} is gone`, {
    hint: "It cannot be delivered any more: discard the letter.",
  });
}
