/** Names of events that users write, and suggestions for unknown ones. */
import { RECORD_TYPES, type RecordType } from "../batch/batch.ts";
import { formatDidYouMean, findSimilar } from "../base/similar-words.ts";

/** Whether this version knows the type: a newer one may have written the record. */
export function isKnownEvent(type: string): type is RecordType {
  return (RECORD_TYPES as readonly string[]).includes(type);
}

/** Why a name is not a type of event, with a suggestion. */
export function describeUnknownEvent(name: string, alsoKnown: readonly string[] = []): string {
  // Only the closest one: many names differ in one word.
  const meant = formatDidYouMean(findSimilar(name, [...RECORD_TYPES, ...alsoKnown]).slice(0, 1));
  return `${JSON.stringify(name)} is not an event. ${meant || `The events are ${RECORD_TYPES.join(", ")}.`}`;
}
