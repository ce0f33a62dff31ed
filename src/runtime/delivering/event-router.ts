/**
 * Gives each event to its one handler. Known events without a handler are ignored by default. An
 * event type that this version does not know is refused, and so becomes undelivered: no router can
 * have chosen to ignore it.
 */
import type { RecordType } from "../../core/batch/batch.ts";
import { SluiceError } from "../../core/base/errors.ts";
import type { EventData } from "../../core/events/event-data.ts";
import { describeUnknownEvent, isKnownEvent } from "../../core/events/event-names.ts";
import { OptionProblems } from "../../core/events/option-problems.ts";
import type { BatchEvent } from "../../ports/store/batch-event.ts";
import type { EventHandler } from "./subscriber.ts";

/** An event of a known type, with the data of that type. */
export type EventOf<Type extends RecordType> = Omit<BatchEvent, "type" | "data"> & {
  readonly type: Type;
  readonly data: EventData[Type];
};

export type EventRoutes = {
  readonly [Type in RecordType]?: (event: EventOf<Type>) => void | Promise<void>;
} & {
  /** What to do with known events that have no handler; default `ignore`. */
  readonly otherwise?: "ignore" | "refuse";
};

const OTHERWISE = "otherwise";

/**
 * ```ts
 * engine.subscribe("mail", routeEvents({
 *   "batch.ended": async ({ batch, data }) => sendMail(`${batch} is ${data.state}`),
 * }));
 * ```
 */
export function routeEvents(routes: EventRoutes): EventHandler {
  checkRoutes(routes);
  // A copy: later changes to the object must not change the router.
  const handlers = new Map(Object.entries(routes)) as ReadonlyMap<string, EventHandler>;
  const refuses = routes.otherwise === "refuse";
  return async (event) => {
    const { type, id } = event;
    if (!isKnownEvent(type)) {
      throw new SluiceError(
        "UNKNOWN_EVENT",
        `the event ${id} has a type that this version does not know: ${String(type)}`,
        { hint: "A newer Sluice wrote it. Upgrade this program, then redeliver the event." },
      );
    }
    const handle = handlers.get(type);
    if (handle !== undefined) return handle(event);
    if (!refuses) return;
    throw new SluiceError("UNKNOWN_EVENT", `the router has no handler for ${id}, a ${type}`, {
      hint: 'Add a handler for it, or leave out otherwise: "refuse".',
    });
  };
}

function checkRoutes(routes: EventRoutes): void {
  const problems = new OptionProblems();
  const isObject = typeof routes === "object" && routes !== null;
  const entries: [string, unknown][] = isObject ? Object.entries(routes) : [];
  for (const [name, value] of entries) {
    if (name === OTHERWISE) {
      if (value === undefined || value === "ignore" || value === "refuse") continue;
      problems.add('otherwise must be "ignore" or "refuse"');
    } else if (!isKnownEvent(name)) {
      problems.add(describeUnknownEvent(name, [OTHERWISE]));
    } else if (typeof value !== "function") {
      problems.add(`${name} must be a function, for example (event) => { ... }`);
    }
  }
  if (entries.every(([name]) => name === OTHERWISE)) {
    problems.add("it names no event, for example batch.ended");
  }
  const problem = problems.describe("the router");
  if (problem !== null) {
    throw new SluiceError("BAD_OPTION", problem, {
      field: "routes",
      hint: "Fix this in routeEvents().",
    });
  }
}
