/**
 * Statements that a handler queues to run in the transaction of its item's outcome, so that data in
 * the same database changes exactly if the item is done. Each item has its own savepoint: an item
 * whose statements fail has failed, and the other items of the commit have not.
 *
 * The store runs the statements, then decides the report with their results: an item whose
 * statements failed is not a success any more, but the failure that its worker prepared for this
 * case.
 */
import type { ErrorClass } from "../base/errors.ts";
import {
  clearOutcome,
  FAILED,
  getOutcome,
  type OutcomeMap,
  PENDING,
  setOutcome,
} from "./outcome-map.ts";
import { redactText } from "../base/redact.ts";
import type { ItemFailure, ReportFacts } from "./report.ts";
import type { ItemError } from "./tracked-item.ts";

/** How many statements one attempt at an item may queue. */
export const STATEMENTS_PER_ITEM_MAX = 100;
export const VALUES_PER_STATEMENT_MAX = 1_000;
/** The total size of their text and values: they travel with a report and lengthen a commit. */
export const QUEUED_CHARS_MAX = 1_048_576;

export type SqlValue = string | number | boolean | null | Uint8Array;

export interface ItemStatement {
  readonly sql: string;
  readonly values: readonly SqlValue[];
}

/** The statements of an item that succeeded or was skipped. */
export interface ItemCommit {
  /** Position in the chunk. */
  readonly index: number;
  readonly key: string | null;
  /** Attempts made, including this one: used when its statements fail. */
  readonly attempts: number;
  /** The delay of the next try after such a failure; null when no attempt is left. */
  readonly retryInMs: number | null;
  /** In order; at least one. */
  readonly statements: readonly ItemStatement[];
}

/** Why the statements of an item failed, as the database reports it. */
export interface CommitFault {
  readonly errorClass: Extract<ErrorClass, "permanent" | "transient">;
  readonly message: string;
}

/** Position to fault. */
export type CommitFaults = ReadonlyMap<number, CommitFault>;

/** An item whose reported outcome was refused, because its statements failed. */
export interface ItemRefusal {
  /** Position in the chunk. */
  readonly index: number;
  /** True: it gave up. False: it is retried in another lease. */
  readonly dead: boolean;
}

/** The statements of items that get their outcome by this report: no others may run. */
export function listDueCommits(
  { outcomes: stored }: { readonly outcomes: OutcomeMap },
  { commits, outcomes }: Pick<ReportFacts, "commits" | "outcomes">,
): readonly ItemCommit[] {
  if (commits.length === 0) return commits;
  return commits.filter(({ index }) => {
    const reported = getOutcome(outcomes, index);
    const isDone = reported !== PENDING && reported !== FAILED;
    return isDone && getOutcome(stored, index) === PENDING;
  });
}

/** The corrected report: items whose statements failed are failures. */
export function decideCommits<R extends ReportFacts>(report: R, faults: CommitFaults): R {
  if (faults.size === 0) return report;
  const outcomes = new Uint8Array(report.outcomes);
  const failures: ItemFailure[] = [...report.failures];
  for (const { index, key, attempts, retryInMs } of report.commits) {
    const fault = faults.get(index);
    if (fault === undefined) continue;
    const failure = { index, key, attempts, ...describeFault(fault) };
    const again = fault.errorClass === "permanent" ? null : retryInMs;
    clearOutcome(outcomes, index);
    if (again === null) setOutcome(outcomes, index, FAILED);
    failures.push({ ...failure, retryInMs: again });
  }
  return { ...report, outcomes, failures };
}

/** What the worker must know before it reports these items again. */
export function listRefusals(
  { commits }: Pick<ReportFacts, "commits">,
  faults: CommitFaults,
): readonly ItemRefusal[] {
  return commits.flatMap(({ index, retryInMs }) => {
    const fault = faults.get(index);
    if (fault === undefined) return [];
    return [{ index, dead: fault.errorClass === "permanent" || retryInMs === null }];
  });
}

function describeFault({ errorClass, message }: CommitFault): ItemError {
  return { errorClass, code: "COMMIT_WITH_FAILED", message: redactText(message) };
}

/**
 * The allowed first words. A statement that ends the transaction, or changes more than data, is
 * refused.
 */
const VERBS: readonly string[] = [
  "CALL",
  "DELETE",
  "INSERT",
  "MERGE",
  "REPLACE",
  "SELECT",
  "UPDATE",
  "WITH",
];

const SHOWN_CHARS = 60;
/** White space, comments and brackets before the first word. */
const BEFORE_VERB = /^(?:[\s(]|--[^\n]*(?:\n|$)|\/\*[\s\S]*?\*\/)*/u;

/** Why a statement may not be queued; null when it may. */
export function describeBadStatement(sql: string): string | null {
  const text = sql.replace(BEFORE_VERB, "");
  const verb = /^\w+/u.exec(text)?.[0].toUpperCase() ?? "";
  if (VERBS.includes(verb)) return null;
  const shown = text.length <= SHOWN_CHARS ? text : `${text.slice(0, SHOWN_CHARS - 1)}…`;
  const given = text === "" ? "has no statement in it" : `begins with ${JSON.stringify(shown)}`;
  return `${given}; it takes one statement that begins with ${VERBS.join(", ")}: Sluice begins and ends the transaction`;
}
