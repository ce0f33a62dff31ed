/**
 * What durable readers are called. A reader's name says which stream it reads: a plain one reads the
 * records of all batches, and `email#mailer` is the group `mailer` of the topic `email`. The sign is
 * in no name that people give, so the two cannot meet.
 */

const SIGN = "#";

/**
 * Reads records to have them signed. It is owed nothing: where nobody signs any more it would hold the
 * evidence of all batches for ever, and one that is pruned before it was signed is simply gone.
 */
export const NOTARY = "sluice/notary";

export interface GroupName {
  readonly topic: string;
  readonly group: string;
}

export function nameGroupReader(topic: string, group: string): string {
  return `${topic}${SIGN}${group}`;
}

/** The group that a reader is; null for one that reads records. */
export function readGroupName(reader: string): GroupName | null {
  const at = reader.indexOf(SIGN);
  return at === -1 ? null : { topic: reader.slice(0, at), group: reader.slice(at + 1) };
}
