/**
 * Names of durable readers. The name says which stream it reads: a plain name reads the records of
 * all batches, and `email#mailer` is the group `mailer` of the topic `email`. User-given names
 * cannot contain the sign, so the two kinds never collide.
 */

const SIGN = "#";

/**
 * The reader that signs ledgers. Retention does not wait for it: if no engine signs any more, it
 * would keep the evidence of all batches for ever. A batch that is pruned before it was signed
 * stays unsigned.
 */
export const LEDGER_SIGNER = "sluice/ledger-signer";

export interface GroupName {
  readonly topic: string;
  readonly group: string;
}

export function nameGroupReader(topic: string, group: string): string {
  return `${topic}${SIGN}${group}`;
}

/** The topic and group of a reader; null for a reader of records. */
export function readGroupName(reader: string): GroupName | null {
  const at = reader.indexOf(SIGN);
  return at === -1 ? null : { topic: reader.slice(0, at), group: reader.slice(at + 1) };
}
