/**
 * Runs the statements that items queued for their commit, inside of the report's transaction. Each
 * item has its own savepoint, so that failing statements do not affect the other items. Statements
 * are sent without waiting for earlier answers. After one that fails, the server refuses everything
 * until the rollback to the savepoint, so the later ones are sent once more.
 *
 * They run with the search path of the connection's default, as their authors expect, and not with
 * that of Sluice's schema, and are planned as on any other connection. Deferred constraints are
 * checked after each item's statements: at the COMMIT they would fail all items.
 */
import type { CommitFault, ItemCommit, SqlValue } from "../../../core/items/item-commit.ts";
import { ANSWER_MS } from "../connection/connection.ts";
import { describeItemFault, isItemsFault } from "../connection/errors.ts";
import { listOwnSettings } from "../connection/own-settings.ts";
import type { Transaction } from "../connection/transaction.ts";

/**
 * How many statements are sent ahead: few after a failure, because later ones are then sent twice;
 * doubled each time without a failure.
 */
const AHEAD_STATEMENTS_MIN = 8;
const AHEAD_STATEMENTS_MAX = 64;
/**
 * Time limit of a statement, including waiting for locks. Answers to later statements may take that
 * much longer, so that a slow statement is not taken for a broken connection.
 */
const STATEMENT_MS = 5_000;

const BEGIN = "SAVEPOINT sluice_item; SET CONSTRAINTS ALL DEFERRED";
const END = "SET CONSTRAINTS ALL IMMEDIATE; RELEASE SAVEPOINT sluice_item";
const UNDO = "ROLLBACK TO SAVEPOINT sluice_item; RELEASE SAVEPOINT sluice_item";

/** An item's commit, and the number of its report. */
export interface DueCommit {
  readonly report: number;
  readonly commit: ItemCommit;
}

/** By the number of the report, and then by position. */
export async function runItemStatements(
  tx: Transaction,
  due: readonly DueCommit[],
): Promise<ReadonlyMap<number, ReadonlyMap<number, CommitFault>>> {
  const faults = new Map<number, Map<number, CommitFault>>();
  if (due.length === 0) return faults;
  const own = listOwnSettings(tx.schema);
  const leave = own.map(([name]) => `SET LOCAL ${name} TO DEFAULT`).join("; ");
  await tx.attempt(`${leave}; SET LOCAL statement_timeout = ${STATEMENT_MS}`);
  let statementsMax = AHEAD_STATEMENTS_MAX;
  for (let next = 0; next < due.length; ) {
    const ahead = takeAhead(due, next, statementsMax);
    const answers = await runAhead(tx, ahead);
    const at = answers.findIndex((error) => error !== null);
    next += at === -1 ? ahead.length : at + 1;
    const failed = ahead[at];
    if (failed === undefined) {
      statementsMax = Math.min(statementsMax * 2, AHEAD_STATEMENTS_MAX);
      continue;
    }
    statementsMax = AHEAD_STATEMENTS_MIN;
    const error = answers[at];
    if (!isItemsFault(error)) throw error as Error;
    await tx.attempt(UNDO);
    const ofReport = faults.get(failed.report) ?? new Map<number, CommitFault>();
    faults.set(failed.report, ofReport);
    ofReport.set(failed.commit.index, describeItemFault(error));
  }
  const back = own.map(([name, value]) => `SET LOCAL ${name} TO ${value}`).join("; ");
  await tx.attempt(`SET LOCAL statement_timeout TO DEFAULT; ${back}`);
  return faults;
}

/** At least one item, however many statements it has. */
function takeAhead(
  due: readonly DueCommit[],
  from: number,
  statementsMax: number,
): readonly DueCommit[] {
  let statements = 0;
  let to = from;
  while (to < due.length) {
    statements += due[to]?.commit.statements.length ?? 0;
    if (statements > statementsMax && to > from) break;
    to++;
  }
  return due.slice(from, to);
}

/** Returns the first fault of each item; null for none. */
function runAhead(tx: Transaction, ahead: readonly DueCommit[]): Promise<readonly unknown[]> {
  let sent = 0;
  const send = (text: string, values?: readonly unknown[]): Promise<void> =>
    tx.attempt(text, values, ANSWER_MS + ++sent * STATEMENT_MS);
  return Promise.all(ahead.map(({ commit }) => runItem(commit, send)));
}

async function runItem(
  { statements }: ItemCommit,
  send: (text: string, values?: readonly unknown[]) => Promise<void>,
): Promise<unknown> {
  const sent = [
    send(BEGIN),
    ...statements.map(({ sql, values }) => send(sql, values.map(toSent))),
    send(END),
  ];
  const answers = await Promise.allSettled(sent);
  const failed = answers.find((answer) => answer.status === "rejected");
  return failed === undefined ? null : failed.reason;
}

function toSent(value: SqlValue): unknown {
  return value instanceof Uint8Array ? Buffer.from(value) : value;
}
