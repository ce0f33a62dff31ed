/** The calls of a store that are rules of both, so that they are bound to it once. */
import type { Store } from "../../../ports/store/store.ts";
import type { Host } from "../host.ts";
import type { Act } from "./act.ts";
import { Deliveries } from "./deliveries.ts";
import { listLimitChanges, listLimits } from "./limit-settings.ts";
import { TaskClaims } from "./task-claims.ts";
import type { RuleTransaction } from "./transaction.ts";

type Rule<T> = (tx: RuleTransaction) => Act<T>;

/** Runs a rule in a transaction of its own. */
export interface RuleRunner {
  readonly read: <T>(rule: Rule<T>) => Promise<T>;
  readonly write: <T>(rule: Rule<T>) => Promise<T>;
}

type RuleVerbs = Pick<
  Store,
  | "claim"
  | "unclaim"
  | "readPosition"
  | "savePosition"
  | "startReader"
  | "rewindReader"
  | "forgetReader"
  | "keepUndelivered"
  | "listUndelivered"
  | "dropUndelivered"
  | "listLimits"
  | "listLimitChanges"
>;

export function composeRules({ read, write }: RuleRunner, host: Host): RuleVerbs {
  const claims = new TaskClaims(host);
  const deliveries = new Deliveries();
  return {
    // Takes no lock and notifies no one: a process that waits for the claim must not wake itself.
    claim: async (task, worker, forMs) =>
      !(await read((tx) => claims.isTaken(tx, task, worker))) &&
      write((tx) => claims.claim(tx, task, worker, forMs)),
    unclaim: (task, worker) => write((tx) => claims.unclaim(tx, task, worker)),
    readPosition: (reader) => read((tx) => deliveries.readPosition(tx, reader)),
    savePosition: (reader, position, from) =>
      write((tx) => deliveries.savePosition(tx, reader, position, from)),
    startReader: (reader, start) => write((tx) => deliveries.startReader(tx, reader, start)),
    rewindReader: (reader, position) =>
      write((tx) => deliveries.rewindReader(tx, reader, position)),
    forgetReader: (reader) => write((tx) => deliveries.forgetReader(tx, reader)),
    keepUndelivered: (undelivered, from) =>
      write((tx) => deliveries.keepUndelivered(tx, undelivered, from)),
    listUndelivered: (page) => read((tx) => deliveries.listUndelivered(tx, page)),
    dropUndelivered: (id) => write((tx) => deliveries.dropUndelivered(tx, id)),
    listLimits: () => read((tx) => listLimits(tx)),
    listLimitChanges: (afterSeq, limit) => read((tx) => listLimitChanges(tx, afterSeq, limit)),
  };
}
