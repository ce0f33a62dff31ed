/** An undelivered event or message, and what was done about it. */
import { readGroupName } from "../core/events/reader-name.ts";
import { formatInstant } from "../ports/clock.ts";
import type { UndeliveredEvent } from "../ports/store/delivery-store.ts";

export interface DeliveryView {
  /** Its number: `topics retry` and `topics discard` take it. */
  readonly delivery: number;
  /** The subscriber that it is for, or `<topic>#<group>`. */
  readonly reader: string;
  /** The id of the event or the message. */
  readonly event: string;
  /** Of the event; or the topic. */
  readonly type: string;
  readonly batch: string;
  readonly attempts: number;
  readonly code: string;
  readonly message: string;
  readonly givenUpAt: string;
}

export function viewDelivery(undelivered: UndeliveredEvent): DeliveryView {
  const { id, reader, event, type, batch, attempts, code, message, givenUpAt } = undelivered;
  const at = formatInstant(givenUpAt);
  return { delivery: id, reader, event, type, batch, attempts, code, message, givenUpAt: at };
}

export interface DeliveryDoneView {
  readonly delivery: number;
  readonly reader: string;
  readonly event: string;
  readonly done: "delivered" | "discarded";
}

export function viewDeliveryDone(
  { id, reader, event }: UndeliveredEvent,
  done: DeliveryDoneView["done"],
): DeliveryDoneView {
  return { delivery: id, reader, event, done };
}

/** A subscriber or a group that was forgotten. */
export interface ForgottenView {
  readonly reader: string;
  /** Null for a subscriber. */
  readonly topic: string | null;
  readonly group: string | null;
  readonly done: "forgotten";
}

export function viewForgotten(reader: string): ForgottenView {
  const name = readGroupName(reader);
  return { reader, topic: name?.topic ?? null, group: name?.group ?? null, done: "forgotten" };
}
