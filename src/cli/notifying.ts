/** Subscribes the sinks of the configuration, and gives them time before the command ends. */
import type { Store } from "../ports/store.ts";
import type { Engine } from "../runtime/engine.ts";
import type { Config } from "./config.ts";
import type { ProgressDisplay } from "./progress-display.ts";
import type { StopRequest } from "./stop-request.ts";

/** How long a command that is done waits for its notifications. */
const NOTIFY_MS = 10_000;

export interface NotifyParts {
  readonly engine: Engine;
  readonly config: Config;
  readonly display: ProgressDisplay;
  readonly stop: StopRequest;
}

/**
 * Makes the names known before anything is submitted. A new one begins here: whoever adds a webhook
 * to an old store does not want all that ever happened in it.
 */
export async function startNotified(store: Store, { notify }: Config): Promise<void> {
  for (const name of notify.keys()) await store.startReader(name, "now");
}

export function subscribeNotified(engine: Engine, { notify }: Config): void {
  for (const [name, sink] of notify) engine.subscribe(name, sink, { since: "now" });
}

/** Waits until all is delivered, a signal comes or the time is over; what is left comes later. */
export async function finishNotifying({
  engine,
  config,
  display,
  stop,
}: NotifyParts): Promise<void> {
  if (config.notify.size === 0 || stop.received !== null) return;
  const isDone = await Promise.race([
    engine.waitForSubscribers({ withinMs: NOTIFY_MS }),
    stop.wait().then(() => false),
  ]);
  if (isDone) return;
  display.note(
    "not all events are delivered yet: the next `sluice run` or `sluice work` goes on with them",
  );
}
