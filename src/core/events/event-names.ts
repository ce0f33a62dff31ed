/** The names of events that people write down, and what they meant by one that there is not. */
import { RECORD_TYPES, type RecordType } from "../batch/batch.ts";
import { askDidYouMean, findSimilar } from "../base/similar-words.ts";

/** Whether this version knows the type: a newer one may have written the record. */
export function isKnownEvent(type: string): type is RecordType {
  return (RECORD_TYPES as readonly string[]).includes(type);
}

/** What is wrong with a name that is no type of event, and what was meant. */
export function describeUnknownEvent(name: string, alsoKnown: readonly string[] = []): string {
  // The closest one alone: many of them differ in one word only.
  const meant = askDidYouMean(findSimilar(name, [...RECORD_TYPES, ...alsoKnown]).slice(0, 1));
  return `${JSON.stringify(name)} is no event. ${meant || `The events are ${RECORD_TYPES.join(", ")}.`}`;
}
