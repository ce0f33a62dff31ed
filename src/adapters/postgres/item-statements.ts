/**
 * Runs what items queued for their commit, inside of the report's transaction: a savepoint an item,
 * so that one whose statements fail takes none of its neighbours with it. Items go out without
 * waiting for the answers of those before them; behind one that fails the server refuses everything
 * until the savepoint is gone back to, so what follows it is sent once more.
 *
 * They run with the search path of the connection's own default, as whoever wrote them expects, and
 * not with that of Sluice's schema. Constraints that are checked late are checked when the item's
 * statements have run: at the COMMIT they would fail everybody.
 */
import pg from "pg";
import type { CommitFault, ItemCommit, ItemStatement } from "../../core/item-commit.ts";
import { describeItemFault, isItemsFault } from "./errors.ts";
import type { Transaction } from "./transaction.ts";

/**
 * Statements that are on their way at once: few after one that failed, as what follows it goes twice,
 * and twice as many with every time that none does.
 */
const AHEAD_STATEMENTS_MIN = 8;
const AHEAD_STATEMENTS_MAX = 256;
/** Well before the answer to a statement is given up, and its connection with it. */
const STATEMENT_MS = 20_000;

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
  await tx.attempt(
    `SET LOCAL search_path TO DEFAULT; SET LOCAL statement_timeout = ${STATEMENT_MS}`,
  );
  let statementsMax = AHEAD_STATEMENTS_MAX;
  for (let next = 0; next < due.length; ) {
    const ahead = takeAhead(due, next, statementsMax);
    const answers = await Promise.all(ahead.map(({ commit }) => runItem(tx, commit)));
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
  const path = `${pg.escapeIdentifier(tx.schema)}, pg_catalog`;
  await tx.attempt(`SET LOCAL statement_timeout TO DEFAULT; SET LOCAL search_path TO ${path}`);
  return faults;
}

/** One at least, however many statements it has. */
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

/** Answers what went wrong first; null when nothing did. */
async function runItem(tx: Transaction, { statements }: ItemCommit): Promise<unknown> {
  const sent = [
    tx.attempt(BEGIN),
    ...statements.map((statement) => runOne(tx, statement)),
    tx.attempt(END),
  ];
  const answers = await Promise.allSettled(sent);
  const failed = answers.find((answer) => answer.status === "rejected");
  return failed === undefined ? null : failed.reason;
}

function runOne(tx: Transaction, { sql, values }: ItemStatement): Promise<void> {
  return tx.attempt(
    sql,
    values.map((value) => (value instanceof Uint8Array ? Buffer.from(value) : value)),
  );
}
