/** Finds, lists and redelivers events and messages that were given up. */
import { describeError, SluiceError } from "../../core/base/errors.ts";
import type { Clock } from "../../ports/clock.ts";
import type { UndeliveredPage, UndeliveredEvent } from "../../ports/store/delivery-store.ts";
import type { Store } from "../../ports/store/store.ts";
import { type Delivery, readStream } from "./stream.ts";
import type { Reader } from "./subscriber.ts";

export interface RedeliveryParts {
  readonly store: Store;
  readonly clock: Clock;
  /** Aborts when the caller stops waiting. */
  readonly signal: AbortSignal;
}

const PAGE = 1_000;

/** Lists them, oldest first: of one reader, or of all. */
export async function* listUndelivered(
  store: Store,
  { reader }: Pick<UndeliveredPage, "reader"> = {},
): AsyncGenerator<UndeliveredEvent, void, void> {
  for (let afterId = 0; ; ) {
    const request = { afterId, limit: PAGE, ...(reader !== undefined && { reader }) };
    const page = await store.listUndelivered(request);
    yield* page;
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE) return;
    afterId = last.id;
  }
}

export async function findUndelivered(store: Store, id: number): Promise<UndeliveredEvent> {
  const [undelivered] = Number.isSafeInteger(id)
    ? await store.listUndelivered({ afterId: id - 1, limit: 1 })
    : [];
  if (undelivered?.id === id) return undelivered;
  throw new SluiceError("NOT_FOUND", `there is no undelivered event ${String(id)}`, {
    kind: "undelivered",
    hint: "`sluice topics undelivered` lists them. This one may have been delivered or discarded.",
  });
}

/** Delivers it once more to its reader, and drops it when the reader took it. */
export async function redeliverAgain(
  undelivered: UndeliveredEvent,
  reader: Reader,
  { store, clock, signal }: RedeliveryParts,
): Promise<void> {
  const delivery = await readDelivery(store, undelivered);
  try {
    await reader.deliver([delivery], { clock, signal });
  } catch (error) {
    const { code, message } = describeError(error);
    const { id: _id, givenUpAt: _at, ...kept } = undelivered;
    await store.keepUndelivered({ ...kept, attempts: undelivered.attempts + 1, code, message });
    throw error;
  }
  await store.dropUndelivered(undelivered.id);
}

async function readDelivery(store: Store, undelivered: UndeliveredEvent): Promise<Delivery> {
  const [delivery] = await readStream(store, undelivered.reader, undelivered.position - 1, 1);
  if (delivery?.position === undelivered.position) return delivery;
  throw new SluiceError("REMOVED", `the record of ${undelivered.event} was deleted`, {
    kind: "record",
    hint: "It cannot be delivered any more: discard it.",
  });
}
