/** The setting `notify`: sinks by subscriber name. */
import { SluiceError } from "../../core/base/errors.ts";
import type { Sink } from "../../ports/sink.ts";
import { isSink, Subscriber } from "../../runtime/delivering/subscriber.ts";
import type { GivenValue } from "./settings-layers.ts";

export type Notify = ReadonlyMap<string, Sink>;

const EXAMPLE = "{ ops: webhookSink({ ... }) }";

/** Its problems, each with its place. */
export function checkNotify(given: GivenValue | undefined): string[] {
  if (given === undefined) return [];
  const { value, place } = given;
  if (typeof value !== "object" || value === null || Array.isArray(value) || isSink(value)) {
    return [`notify ${place} must be an object of sinks by their names, for example ${EXAMPLE}`];
  }
  return Object.entries(value).flatMap(([name, sink]: [string, unknown]) => {
    if (!isSink(sink)) {
      return [`notify.${name} ${place} must be a webhookSink, a commandSink or a fileSink`];
    }
    return isGoodName(name, sink)
      ? []
      : [
          `notify.${name} ${place} must have a name of letters, digits or the characters . _ : @ / -`,
        ];
  });
}

function isGoodName(name: string, sink: Sink): boolean {
  try {
    return new Subscriber(name, sink).name === name;
  } catch (error) {
    if (error instanceof SluiceError) return false;
    throw error;
  }
}

/** Call `checkNotify` first. */
export function readNotify(given: GivenValue | undefined): Notify {
  return new Map(Object.entries((given?.value ?? {}) as Record<string, Sink>));
}
