/**
 * Bugs of the SQLite adapter on the hot path: leases, reports, sweeps, limits. They are hunted in
 * worlds on that store.
 */
import type { Bug } from "./bug.ts";

const CHUNKS = "src/adapters/sqlite/chunks/chunks.ts";
const LEASING = "src/adapters/sqlite/working/leasing.ts";
const SETTLING = "src/adapters/sqlite/working/settling.ts";
const SWEEPING = "src/adapters/sql/working/sweeping.ts";
const WATCHING = "src/adapters/sql/working/watching.ts";
const BUCKETS = "src/adapters/sqlite/limits/token-buckets.ts";
const PERMITS = "src/adapters/sqlite/limits/concurrency-permits.ts";
const SHARES = "src/adapters/sql/rules/idle-tenants.ts";

export const sqliteWorkBugs: readonly Bug[] = [
  {
    name: "sqlite-report-ignores-fence",
    what: "A report counts whatever its fence is, as long as somebody holds the chunk.",
    file: CHUNKS,
    before: "WHERE batch = ? AND step = ? AND chunk = ? AND state = 'leased' AND fence = ?`",
    after: "WHERE batch = ? AND step = ? AND chunk = ? AND state = 'leased' AND 0 <= ?`",
  },
  {
    name: "sqlite-report-ignores-state",
    what: "A report counts again after its chunk was settled.",
    file: CHUNKS,
    before: "WHERE batch = ? AND step = ? AND chunk = ? AND state = 'leased' AND fence = ?`",
    after: "WHERE batch = ? AND step = ? AND chunk = ? AND fence = ?`",
  },
  {
    name: "sqlite-skips-stay-pending",
    what: "Skipped items are counted, and pending ones are not counted down for them.",
    file: CHUNKS,
    before: "        succeeded + skipped + failed,\n",
    after: "        succeeded + failed,\n",
  },
  {
    name: "sqlite-null-hides-due-chunks",
    what: "The earlier of two due times is NULL when one of them is: min() of SQLite is not coalesce.",
    file: CHUNKS,
    before: "leasable_at = coalesce(min(leasable_at, ?), ?, leasable_at)",
    after: "leasable_at = min(coalesce(leasable_at, ?), ?)",
  },
  {
    name: "sqlite-given-back-messages-lost",
    what: "Messages of items are not written when the rest of their chunk is given back.",
    file: CHUNKS,
    before: "    this.#topics.write(row, effect);\n",
    after: '    if (effect.end !== "yielded") this.#topics.write(row, effect);\n',
  },
  {
    name: "sqlite-step-checked-only-when-empty",
    what: "A commit of failures does not check the failure budget.",
    file: CHUNKS,
    before: "if (pending === 0 || running === 0 || canary !== null || failed > 0) due.add(batch);",
    after: "if (pending === 0 || running === 0 || canary !== null) due.add(batch);",
  },
  {
    name: "sqlite-lease-keeps-fence",
    what: "A chunk that is leased again keeps its fence, so its former worker may report on it.",
    file: LEASING,
    before: `fence = fence + 1, worker = ?, lease_until = ?,
         charge = ?, busy_ms = 0 WHERE`,
    after: `fence = fence, worker = ?, lease_until = ?,
         charge = ?, busy_ms = 0 WHERE`,
    also: [
      { file: LEASING, before: "fence: row.fence + 1,", after: "fence: Math.max(1, row.fence)," },
    ],
  },
  {
    name: "sqlite-step-forgets-its-back-off",
    what: "After a lease the step counts as having nothing to lease, though chunks wait.",
    file: LEASING,
    before: `SELECT min(due_at) FROM chunk INDEXED BY chunk_due
         WHERE state = 'waiting' AND batch = ? AND step = ?)),`,
    after: `SELECT min(due_at) FROM chunk INDEXED BY chunk_due
         WHERE state = 'planned' AND batch = ? AND step = ?)),`,
  },
  {
    name: "sqlite-back-off-ignored",
    what: "Chunks in back-off are leased at once.",
    file: LEASING,
    before: "WHERE state = 'waiting' AND batch = ? AND step = ? AND due_at <= ?",
    after: "WHERE state = 'waiting' AND batch = ? AND step = ? AND 0 <= ?",
  },
  {
    name: "sqlite-canary-does-not-hold-back",
    what: "All chunks are leased while the canary runs.",
    file: "src/adapters/sql/rules/steps.ts",
    before: "chunks, coalesce(canary_chunks, chunks))`;",
    after: "chunks, chunks)`;",
  },
  {
    name: "sqlite-history-lost",
    what: "A chunk that is leased again does not know the attempts of its items.",
    file: LEASING,
    before: "histories: row.tracked === 0 ? NONE : this.#readHistories(step, row, now),",
    after: "histories: NONE,",
  },
  {
    name: "sqlite-edits-not-read",
    what: "An edited dead letter runs with its old payload.",
    file: LEASING,
    before: "overrides: row.edited === 0 ? NONE : this.#readOverrides(step, row),",
    after: "overrides: NONE,",
  },
  {
    name: "sqlite-renewal-ignores-fence",
    what: "A worker that lost its chunk goes on renewing it for its successor.",
    file: SETTLING,
    before: `AND chunk = ? AND state = 'leased' AND fence = ?
       RETURNING`,
    after: `AND chunk = ? AND state = 'leased' AND 0 <= ?
       RETURNING`,
  },
  {
    name: "sqlite-cancel-renews-leases",
    what: "Leases of a batch that is being cancelled are renewed without end.",
    file: SETTLING,
    before: "IS 'now', lease_until, ?)",
    after: "IS 'never', lease_until, ?)",
  },
  {
    name: "sqlite-content-done-before-success",
    what: "Content of items that failed counts as processed.",
    file: SETTLING,
    before: "      if (getOutcome(outcomes, index) !== SUCCEEDED) continue;\n",
    after: "",
  },
  {
    name: "sqlite-content-held-by-the-past",
    what: "An item that has its outcome still holds its content until its chunk is settled.",
    file: SETTLING,
    before:
      "return held !== undefined && getOutcome(held.outcomes, item - held.start) === PENDING;",
    after: "return held !== undefined;",
  },
  {
    name: "sqlite-results-of-drive-one",
    what: "Results of a redriven item count as those of the first drive, and miss the next step.",
    file: SETTLING,
    before: "this.#putResult.run(batch, step, start + index, key, value, drive);",
    after: "this.#putResult.run(batch, step, start + index, key, value, Math.min(1, drive));",
  },
  {
    name: "sqlite-lost-lease-unguarded",
    what: "A chunk whose worker died runs as usual the next time.",
    file: SWEEPING,
    before: "SET guarded = 1 /*sqlite WHERE",
    after: "SET guarded = 0 /*sqlite WHERE",
  },
  {
    name: "sqlite-seal-deadline-never",
    what: "A batch whose producer died stays open for ever.",
    file: SWEEPING,
    before: "AND seal_deadline_at <= $1",
    after: "AND seal_deadline_at <= 0 * $1",
  },
  {
    name: "sqlite-deadline-never",
    what: "Batches outlive their deadlines.",
    file: SWEEPING,
    before: "AND deadline_at <= $1",
    after: "AND deadline_at <= 0 * $1",
  },
  {
    name: "sqlite-watch-forgets-stalls",
    what: "The watch does not count its stalls, so leftovers are never given up.",
    file: WATCHING,
    before: "SET watch_previous = $1, watch_stalls = $2, watch_due_at = $3",
    after: "SET watch_previous = $1, watch_stalls = 0 * $2, watch_due_at = $3",
  },
  {
    name: "sqlite-leftovers-keep-fence",
    what: "Chunks that are given up keep their fence.",
    file: WATCHING,
    before: "UPDATE chunk SET fence = fence + 1\n",
    after: "UPDATE chunk SET fence = fence\n",
    rare: true,
  },
  {
    name: "sqlite-closed-key-forgotten",
    what: "A key that is closed is not listed.",
    file: BUCKETS,
    before: "WHERE closed_until > 0 AND closed_until > ? ORDER BY",
    after: "WHERE closed_until > 0 AND closed_until > 2 * ? ORDER BY",
  },
  {
    name: "sqlite-draw-not-saved",
    what: "Drawn tokens are not written down: every worker gets the same ones.",
    file: BUCKETS,
    before: "if (state !== before) this.#save(draw, state, findBucketEnd(state, spec));",
    after: "",
  },
  {
    name: "sqlite-cap-counts-own-slots-only",
    what: "A cap counts the slots of others only after they have expired.",
    file: PERMITS,
    before: "WHERE scope = $1 AND worker <> $2 AND until > $3`",
    after: "WHERE scope = $1 AND worker <> $2 AND until < $3`",
  },
  {
    name: "sqlite-share-forgotten-early",
    what: "A tenant without work loses its tag at once, and begins again with each batch.",
    file: SHARES,
    before: "h.finish <= (SELECT c.virtual FROM",
    after: "0 <= (SELECT c.virtual FROM",
  },
  {
    name: "sqlite-idle-looks-commit",
    what: "A look that finds nothing commits, which wakes all others: on a store in the process it never ends.",
    file: SETTLING,
    before: "    return book.hasMoved();\n",
    after: "    return true;\n",
  },
];
