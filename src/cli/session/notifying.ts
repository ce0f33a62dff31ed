/** Subscribes the sinks of the configuration to events and topics, and gives them time before the command ends. */
import type { Store } from "../../ports/store/store.ts";
import type { Engine } from "../../runtime/engine/engine.ts";
import type { Config } from "../config/config.ts";
import type { ProgressDisplay } from "../render/progress-display.ts";
import type { StopRequest } from "../process/stop-request.ts";

/** How long a finished command waits for its notifications. */
const NOTIFY_MS = 10_000;

/** Messages that a sink gets at once, if it accepts several. */
const CONSUME_TOGETHER = 1_000;

export interface NotifyParts {
  readonly engine: Engine;
  readonly config: Config;
  readonly display: ProgressDisplay;
  readonly stop: StopRequest;
}

/**
 * Registers the readers before anything is submitted. A new reader starts now: a user who adds a
 * webhook to an old store does not want all its past events.
 */
export async function startNotified(store: Store, { notify }: Config): Promise<void> {
  for (const name of notify.keys()) await store.startReader(name, "now");
}

export function subscribeNotified(engine: Engine, { notify, consume }: Config): void {
  for (const [name, sink] of notify) engine.subscribe(name, sink, { since: "now" });
  for (const { topic, group, sink } of consume) {
    // No message may be missed: a new group begins with the oldest.
    if (sink.deliverAll === undefined) engine.consume(topic, group, sink);
    else engine.consume(topic, group, sink, { batch: CONSUME_TOGETHER });
  }
}

/**
 * Waits until all is delivered, a signal comes or the time is over; the rest is delivered later.
 */
export async function finishNotifying({
  engine,
  config,
  display,
  stop,
}: NotifyParts): Promise<void> {
  const subscribers = config.notify.size + config.consume.length;
  if ((subscribers === 0 && config.ledgerKey === null) || stop.received !== null) return;
  const isDone = await Promise.race([
    engine.waitForSubscribers({ withinMs: NOTIFY_MS }),
    stop.wait().then(() => false),
  ]);
  if (isDone) return;
  if (subscribers === 0) {
    display.note(
      "the ledger is not signed to its end yet: the next `sluice run` or `sluice work` does it",
    );
    return;
  }
  display.note(
    `not all ${config.consume.length > 0 ? "events and messages" : "events"} are delivered yet: the next \`sluice run\` or \`sluice work\` delivers them`,
  );
}
