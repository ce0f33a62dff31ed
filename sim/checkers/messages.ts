/**
 * The messages of an item are in their topic exactly if the attempt that emitted them made the
 * item's outcome: all of them, once, under the ids of its drive. Each drive in which an item fails
 * for good has one message in the errors topic.
 */
import type { StoredMessage } from "../../src/ports/store/topic-store.ts";
import {
  FAILED,
  getOutcome,
  type OutcomeCode,
  SKIPPED,
  SUCCEEDED,
} from "../../src/core/items/outcome-map.ts";
import {
  type Checker,
  listBatches,
  listSteps,
  nameBatch,
  type Scene,
  type StepPlace,
} from "./checker.ts";
import { EMITTED, ERRORS_TOPIC, PARCELS_TOPIC } from "../traffic/errand.ts";

interface Facts {
  readonly outcome: OutcomeCode;
  /** The time of its row, if it has one. */
  readonly drive: number;
}

export function checkMessages(scene: Scene): Checker {
  const { state } = scene.world.store;
  /** The last parts of ids, by item. */
  const left = new Map<string, Set<string>>();
  /** The drive in which an item last ran. */
  const drives = new Map<string, number>();
  let lastPosition = 0;
  const note = ({ id, topic }: StoredMessage): void => {
    const [batch, step, item, drive, what] = id.split("/");
    const isRight = topic === (what === "error" ? ERRORS_TOPIC : PARCELS_TOPIC);
    if (!isRight) scene.fail(`the message ${id} is in the topic ${topic}`);
    const place = `${batch}/${step}/${item}`;
    const ends = left.get(place) ?? new Set();
    if (ends.has(`${drive}/${what}`)) scene.fail(`the message ${id} was written twice`);
    left.set(place, ends.add(`${drive}/${what}`));
  };
  const checkItem = ({ batch, number, plot }: StepPlace, index: number, facts: Facts): void => {
    const place = `${batch.submission.id}/${number}/${index}`;
    const ends = left.get(place) ?? new Set();
    const { outcome, drive } = facts;
    const isLeft = findLeft(ends, drives.get(place) ?? 1);
    const item = `item ${number}/${index} of ${nameBatch(batch)}`;
    const isDone = outcome === SUCCEEDED || outcome === SKIPPED;
    if (isLeft === "others") scene.fail(`${item} has other messages than its last run emitted`);
    // An item that is skipped as a duplicate never ran.
    const mayBeSilent = outcome === SKIPPED && plot.dedupes;
    if (isDone && isLeft === "none" && !mayBeSilent)
      scene.fail(`${item} is done and has no messages`);
    if (!isDone && isLeft !== "none") scene.fail(`${item} is not done and has messages`);
    if (outcome === FAILED && !ends.has(`${drive}/error`)) {
      scene.fail(`${item} failed for good in drive ${drive} without a message`);
    }
  };
  const checkStep = (place: StepPlace): void => {
    for (const { start, end, outcomes, tracked } of place.step.chunks) {
      for (let at = 0; at < end - start; at++) {
        const drive = tracked.get(at)?.drive ?? 1;
        checkItem(place, start + at, { outcome: getOutcome(outcomes, at), drive });
      }
    }
  };
  return {
    onCommit: () => {
      if (state.messagesKept === lastPosition) return;
      for (const message of state.messages) if (message.position > lastPosition) note(message);
      lastPosition = state.messagesKept;
    },
    onStart: ({ batch, step, index, drive }) => {
      drives.set(`${batch}/${step}/${index}`, drive);
    },
    atEnd: () => {
      for (const batch of listBatches(scene)) {
        for (const place of listSteps(scene, batch)) if (!place.plot.waits) checkStep(place);
      }
    },
  };
}

/** Whether these are exactly the messages that the last run emitted. */
function findLeft(ends: ReadonlySet<string>, drive: number): "none" | "all" | "others" {
  const own = [...ends].filter((end) => !end.endsWith("/error")).toSorted();
  if (own.length === 0) return "none";
  const whole = Array.from({ length: EMITTED }, (_, nth) => `${drive}/${nth}`);
  return own.join() === whole.join() ? "all" : "others";
}
