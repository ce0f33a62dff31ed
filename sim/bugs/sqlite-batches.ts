/**
 * Bugs of the SQL stores in the life of batches: lanes, steps, plans, operators' acts, records. The
 * rules are the same for both stores; the bugs are hunted in worlds on SQLite.
 */
import type { Bug } from "./bug.ts";

const LANES = "src/adapters/sql/rules/lanes.ts";
const LIFECYCLE = "src/adapters/sql/rules/batch-lifecycle.ts";
const REDRIVING = "src/adapters/sql/rules/redriving.ts";
const ACTS = "src/adapters/sql/rules/operator-acts.ts";
const PLANNING = "src/adapters/sql/rules/planning.ts";
const STEPS = "src/adapters/sql/rules/steps.ts";
const RECORDS = "src/adapters/sql/rules/records.ts";
const DELIVERIES = "src/adapters/sql/rules/deliveries.ts";
const CLAIMS = "src/adapters/sql/rules/task-claims.ts";

export const sqliteBatchBugs: readonly Bug[] = [
  {
    name: "sqlite-successor-not-started",
    what: "The end of a batch does not start the next one of its lane.",
    file: LIFECYCLE,
    before: "? [batch.id, ...(yield* this.startNextInLane(tx, batch.lane))]\n      : [];",
    after: "? [batch.id]\n      : [];",
  },
  {
    name: "sqlite-lane-in-order-of-submission-only",
    what: "The next batch of a lane is the oldest, wherever operators moved it.",
    file: LANES,
    before: "ORDER BY b.place LIMIT $3",
    after: "ORDER BY b.num LIMIT $3",
  },
  {
    name: "sqlite-parked-batch-starts",
    what: "A parked batch gets its lane's turn.",
    file: LANES,
    before: '"b.active = 0 AND b.ended_at IS NULL AND b.parked_code IS NULL"',
    after: '"b.active = 0 AND b.ended_at IS NULL"',
  },
  {
    name: "sqlite-null-deadline-wins",
    what: "A batch without a deadline gets none from its maximum run time: min() with NULL is NULL.",
    file: LANES,
    before: "ELSE coalesce(CAST(CAST($3 AS bigint) + max_run_ms AS bigint), deadline_at) END",
    after: "ELSE min(deadline_at, $3 + max_run_ms) END",
  },
  {
    name: "sqlite-front-is-the-back",
    what: "A batch that is moved to the front comes after the one that was there.",
    file: LANES,
    before: "? (yield* this.#records.get(tx, num)).place : place - 1;",
    after: "? (yield* this.#records.get(tx, num)).place : place + 0.5;",
  },
  {
    name: "sqlite-pass-not-counted",
    what: "Passes over dead letters are not counted, so they never end.",
    file: LIFECYCLE,
    before: "UPDATE step SET passes = passes + 1 WHERE",
    after: "UPDATE step SET passes = passes + 0 WHERE",
  },
  {
    name: "sqlite-pass-takes-discarded-letters",
    what: "A pass redrives dead letters that were discarded.",
    file: LIFECYCLE,
    before: "AND error_class <> 'permanent' AND code NOT IN (${CODES}) AND discarded_by IS NULL`",
    after: "AND error_class <> 'permanent' AND code NOT IN (${CODES})`",
  },
  {
    name: "sqlite-end-leaves-chunks-waiting",
    what: "A batch that ends early keeps chunks in back-off as they are.",
    file: LIFECYCLE,
    before: "SET state = 'cancelled' WHERE state = 'waiting'*/",
    after: "SET state = 'cancelled' WHERE state = 'waiting' AND due_at < 0*/",
  },
  {
    name: "sqlite-pause-outlives-its-batch",
    what: "A pause stays when its batch ends: reopened, it does not run.",
    file: LIFECYCLE,
    before: "    lanes.forgetPause(tx, batch.id);\n",
    after: "",
  },
  {
    name: "sqlite-paused-step-runs",
    what: "A step of a paused batch may be leased from.",
    file: STEPS,
    before: "AND b.cancel_mode IS NULL AND ${PAUSE_OF_BATCH} IS NULL THEN 1 ELSE 0 END,",
    after: "AND b.cancel_mode IS NULL THEN 1 ELSE 0 END,",
  },
  {
    name: "sqlite-cancelled-step-runs",
    what: "A step of a batch that is being cancelled may be leased from.",
    file: STEPS,
    before: "AND b.cancel_mode IS NULL AND ${PAUSE_OF_BATCH} IS NULL THEN 1 ELSE 0 END,",
    after: "AND ${PAUSE_OF_BATCH} IS NULL THEN 1 ELSE 0 END,",
  },
  {
    name: "sqlite-slicer-fence-reused",
    what: "The plan of the next step has the fence of the last one: its slicer may finish this one.",
    file: STEPS,
    before: "SELECT max(o.slice_fence) + 1 FROM step o",
    after: "SELECT max(o.slice_fence) FROM step o",
  },
  {
    name: "sqlite-redriven-item-keeps-attempts",
    what: "A redriven item begins with the attempts that it has used up.",
    file: REDRIVING,
    before: "UPDATE item SET attempts = 0, deaths = 0, started = 0, dead = 0,",
    after: "UPDATE item SET attempts = attempts, deaths = 0, started = 0, dead = 0,",
  },
  {
    name: "sqlite-redrive-puts-off-its-chunk",
    what: "A chunk that waits is put off until its redriven items are due.",
    file: REDRIVING,
    before: "CASE WHEN state = 'waiting' AND due_at < $5 THEN due_at ELSE $5 END",
    after: "CASE WHEN state = 'waiting' AND due_at > $5 THEN due_at ELSE $5 END",
    rare: true,
  },
  {
    name: "sqlite-revival-forgets-steps",
    what: "A batch that is reopened leaves what was cancelled in the steps' counters.",
    file: REDRIVING,
    before: "UPDATE step SET pending = pending + cancelled, cancelled = 0 WHERE",
    after: "UPDATE step SET pending = pending WHERE",
  },
  {
    name: "sqlite-reopened-batch-stays-cancelled",
    what: "A batch that is reopened after a cancel is cancelled again at once.",
    file: ACTS,
    before: "reason_code = NULL, reason_message = NULL, cancel_mode = NULL, cancel_by = NULL,",
    after: "reason_code = NULL, reason_message = NULL, cancel_by = NULL,",
  },
  {
    name: "sqlite-resume-leaves-parked",
    what: "A batch that is resumed stays out of its lane's queue.",
    file: ACTS,
    before: "UPDATE batch SET parked_code = NULL, parked_message = NULL, activity_at = $2",
    after: "UPDATE batch SET activity_at = $2",
  },
  {
    name: "sqlite-afresh-keeps-the-plan",
    what: "A source that is sliced afresh keeps the chunks of its former plan.",
    file: PLANNING,
    before: "`DELETE FROM chunk WHERE batch = $1 AND step = $2 AND chunk >= (",
    after: "`DELETE FROM chunk WHERE batch = $1 AND step = $2 AND chunk < 0 AND chunk >= (",
  },
  {
    name: "sqlite-planned-not-pending",
    what: "Chunks that are planned are not pending.",
    file: PLANNING,
    before: "planned = planned + $4, pending = pending + $4,",
    after: "planned = planned + $4, pending = pending + 0 * $4,",
  },
  {
    name: "sqlite-chain-forgets-its-head",
    what: "The next record follows the one before the last.",
    file: RECORDS,
    before: "    tx.send(UPDATE_HEAD, num, head.seq, head.hash);\n",
    after: "    tx.send(UPDATE_HEAD, num, head.seq, links[0]?.hash ?? head.hash);\n",
  },
  {
    name: "sqlite-position-goes-back",
    what: "An event that is delivered late moves a reader back.",
    file: DELIVERIES,
    before: "/*sqlite max*//*postgres greatest*/(reader.position, excluded.position)",
    after: "excluded.position",
  },
  {
    name: "sqlite-claim-taken-from-the-living",
    what: "A background task has two holders.",
    file: CLAIMS,
    before: "held.until > Math.floor(tx.now) &&",
    after: "held.until > 2 * Math.floor(tx.now) &&",
    also: [{ file: CLAIMS, before: "claim.until <= $4 OR", after: "0 <= $4 OR" }],
  },
];
