/** The setting `consume`: sinks by topic and group. */
import { isTopicName } from "../../core/events/topic.ts";
import type { Sink } from "../../ports/sink.ts";
import { isSink } from "../../runtime/delivering/subscriber.ts";
import type { GivenValue } from "./settings-layers.ts";

export interface Consumed {
  readonly topic: string;
  readonly group: string;
  readonly sink: Sink;
}

const EXAMPLE = "{ email: { archive: jsonlSink({ ... }) } }";

/** Its problems, each with its place. */
export function checkConsume(given: GivenValue | undefined): string[] {
  if (given === undefined) return [];
  const { value, place } = given;
  if (!isTable(value)) {
    return [`consume ${place} must be an object of groups by their topics, for example ${EXAMPLE}`];
  }
  return Object.entries(value).flatMap(([topic, groups]: [string, unknown]) => {
    if (!isTable(groups)) {
      return [`consume.${topic} ${place} must be an object of sinks by their groups`];
    }
    return Object.entries(groups).flatMap(([group, sink]: [string, unknown]) => {
      const name = `consume.${topic}.${group} ${place}`;
      if (!isSink(sink)) {
        return [`${name} must be a jsonlSink, a webhookSink, a commandSink or a fileSink`];
      }
      const isGood = isTopicName(topic) && isTopicName(group);
      return isGood
        ? []
        : [`${name} must have names of letters, digits, dots, underscores or dashes`];
    });
  });
}

function isTable(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !isSink(value);
}

/** Call `checkConsume` first. */
export function readConsume(given: GivenValue | undefined): readonly Consumed[] {
  const topics = (given?.value ?? {}) as Record<string, Record<string, Sink>>;
  return Object.entries(topics).flatMap(([topic, groups]) =>
    Object.entries(groups).map(([group, sink]) => ({ topic, group, sink })),
  );
}
