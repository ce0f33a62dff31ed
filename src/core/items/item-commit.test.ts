import { describe, expect, test } from "vitest";
import {
  type CommitFault,
  decideCommits,
  describeBadStatement,
  type ItemCommit,
  listDueCommits,
  listRefusals,
} from "./item-commit.ts";
import { createOutcomeMap, type OutcomeCode, setOutcome } from "./outcome-map.ts";
import { decideReport, type ItemFailure, type ReportFacts } from "./report.ts";
import type { StoredChunk } from "./tracked-item.ts";

const NOW = 10_000;

function pack(codes: readonly OutcomeCode[]): Uint8Array {
  const map = createOutcomeMap(codes.length);
  for (const [item, code] of codes.entries()) setOutcome(map, item, code);
  return map;
}

const stored = (...codes: readonly OutcomeCode[]): StoredChunk => ({
  items: codes.length,
  outcomes: pack(codes),
  tracked: [],
  losses: 0,
});

function commit(index: number, retryInMs: number | null = 250): ItemCommit {
  const statements = [{ sql: "SELECT 1", values: [] }];
  return { index, key: `k${index}`, attempts: 2, retryInMs, statements };
}

function report(codes: readonly OutcomeCode[], changes: Partial<ReportFacts> = {}): ReportFacts {
  return {
    outcomes: pack(codes),
    failures: [],
    results: [],
    deferrals: [],
    checkpoints: [],
    contents: [],
    messages: [],
    commits: codes.map((_code, index) => commit(index)),
    abandoned: [],
    limitWait: null,
    starting: [],
    intent: "yield",
    ...changes,
  };
}

const PERMANENT: CommitFault = { errorClass: "permanent", message: "not unique" };
const TRANSIENT: CommitFault = { errorClass: "transient", message: "locked" };

describe("the statements that run", () => {
  const listed = (before: readonly OutcomeCode[], said: readonly OutcomeCode[]): number[] =>
    listDueCommits(stored(...before), report(said)).map(({ index }) => index);

  test("are those of items that succeed or are skipped by this report", () => {
    expect(listed([0, 0, 0, 0], [1, 2, 3, 0])).toEqual([0, 1]);
  });

  test("are none of items that already have their outcome", () => {
    expect(listed([1, 2, 3, 0], [1, 1, 1, 1])).toEqual([3]);
  });
});

describe("an item whose statements failed", () => {
  const failure = (index: number, fault: CommitFault, retryInMs: number | null): ItemFailure => ({
    index,
    key: `k${index}`,
    attempts: 2,
    code: "COMMIT_WITH_FAILED",
    ...fault,
    retryInMs,
  });

  test("is a dead letter when a retry would fail the same way", () => {
    const said = report([1, 1, 2]);
    const told = decideCommits(said, new Map([[1, PERMANENT]]));
    expect(told.outcomes).toEqual(pack([1, 3, 2]));
    expect(told.failures).toEqual([failure(1, PERMANENT, null)]);
    expect(said.outcomes).toEqual(pack([1, 1, 2]));
  });

  test("is retried after a transient failure, at the time its worker said", () => {
    const told = decideCommits(report([1, 1]), new Map([[0, TRANSIENT]]));
    expect(told.outcomes).toEqual(pack([0, 1]));
    expect(told.failures).toEqual([failure(0, TRANSIENT, 250)]);
  });

  test("is a dead letter when no attempt is left", () => {
    const told = decideCommits(
      report([2], { commits: [commit(0, null)] }),
      new Map([[0, TRANSIENT]]),
    );
    expect(told.outcomes).toEqual(pack([3]));
    expect(told.failures).toEqual([failure(0, TRANSIENT, null)]);
  });

  test("leaves neither result nor message, and counts by the class of its error", () => {
    const said = report([1, 1], {
      results: [0, 1].map((index) => ({ index, key: null, value: "1" })),
      messages: [0, 1].map((index) => ({ index, topic: "t", nth: 0, body: "1" })),
    });
    const effect = decideReport(stored(0, 0), decideCommits(said, new Map([[1, PERMANENT]])), NOW);
    expect(effect.end).toBe("settled");
    expect(effect.delta).toEqual({ succeeded: 1, skipped: 0, failed: 1 });
    expect(effect.results.map(({ index }) => index)).toEqual([0]);
    expect(effect.messages.map(({ index }) => index)).toEqual([0]);
    expect(effect.tally).toEqual({ permanent: 1, transient: 0, unexpected: 0 });
  });

  test("keeps its chunk from being settled while it waits for its next try", () => {
    const told = decideCommits(report([1, 1]), new Map([[1, TRANSIENT]]));
    expect(decideReport(stored(0, 0), told, NOW)).toMatchObject({ end: "yielded", dueAt: 10_250 });
  });

  test("is reported to the worker, with whether it gave up", () => {
    const said = report([1, 1, 1], { commits: [commit(0), commit(1), commit(2, null)] });
    const faults = new Map([
      [0, PERMANENT],
      [1, TRANSIENT],
      [2, TRANSIENT],
    ]);
    expect(listRefusals(said, faults)).toEqual([
      { index: 0, dead: true },
      { index: 1, dead: false },
      { index: 2, dead: true },
    ]);
  });
});

test("a report without failed statements is unchanged", () => {
  const said = report([1, 0]);
  expect(decideCommits(said, new Map())).toBe(said);
  expect(listRefusals(said, new Map())).toEqual([]);
});

describe("a statement", () => {
  test("changes or asks for data", () => {
    for (const sql of [
      "INSERT INTO t VALUES (1)",
      "  update t set a = 1",
      "-- why\nDELETE FROM t",
      "/* why */ with x as (select 1) select * from x",
      "(SELECT 1)",
      "REPLACE INTO t VALUES (1)",
      "MERGE INTO t USING s ON true WHEN MATCHED THEN DO NOTHING",
      "CALL book($1)",
    ]) {
      expect(describeBadStatement(sql), sql).toBeNull();
    }
  });

  test("neither begins nor ends a transaction, nor changes the session", () => {
    for (const sql of [
      "COMMIT",
      "begin immediate",
      "/* */ rollback to x",
      "SAVEPOINT s",
      "RELEASE s",
      "END",
      "PREPARE TRANSACTION 'x'",
      "SET search_path = x",
      "PRAGMA foreign_keys = OFF",
      "ATTACH 'other.db' AS o",
      "COPY t FROM STDIN",
      "CREATE TABLE t (a)",
      "insertion",
    ]) {
      expect(describeBadStatement(sql), sql).toContain("begins with");
    }
    expect(describeBadStatement("COMMIT")).toContain('begins with "COMMIT"');
    expect(describeBadStatement(" -- nothing")).toContain("no statement");
    expect(describeBadStatement(`DROP TABLE ${"x".repeat(100)}`)).toContain('xxx…"');
  });
});
