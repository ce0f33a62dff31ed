/**
 * Bugs of the PostgreSQL adapter that only transactions at the same time show: locks that are
 * missing, come too late or in another order. They are hunted on a real server, with the statements
 * of several stores interleaved (sim/interleaved).
 */
import type { Bug } from "./bug.ts";

const CLAIMS = "src/adapters/postgres/chunks/content-claims.ts";
const BUCKETS = "src/adapters/postgres/limits/token-buckets.ts";
const HELD = "src/adapters/postgres/chunks/held-chunks.ts";
const LANES = "src/adapters/sql/rules/lanes.ts";
const LEASING = "src/adapters/postgres/working/leasing.ts";
const OPERATORS = "src/adapters/sql/rules/operator-acts.ts";
const PERMITS = "src/adapters/postgres/limits/concurrency-permits.ts";
const PLANNING = "src/adapters/sql/rules/planning.ts";
const PRUNING = "src/adapters/sql/rules/pruning.ts";
const SETTLING = "src/adapters/postgres/working/settling.ts";
const TRANSACTION = "src/adapters/postgres/connection/transaction.ts";
const VERBS = "src/adapters/sql/store/verbs.ts";

export const postgresLockBugs: readonly Bug[] = [
  {
    name: "postgres-lane-not-locked",
    what: "Nothing locks a lane: two batches that are submitted at once get the same place.",
    file: TRANSACTION,
    before: "    await this.run(LOCK, this.#nameLock(kind, name));\n",
    after: '    if (kind !== "lane") await this.run(LOCK, this.#nameLock(kind, name));\n',
  },
  {
    name: "postgres-place-read-before-lane-lock",
    what: "A submit reads the last place of its lane, and then waits for the lane.",
    world: "postgres",
    file: PLANNING,
    before: `    const [, same, place] = yield* together(
      tx.lock("lane", lane),
      this.#findSame(tx, submission),
      lanes.computeBack(tx, lane),
    );`,
    after: `    const [place, same] = yield* together(
      lanes.computeBack(tx, lane),
      this.#findSame(tx, submission),
      tx.lock("lane", lane),
    );`,
  },
  {
    name: "postgres-lane-locked-before-batch",
    what: "A move locks the lane and then the batch; a cancel locks them in the other order.",
    world: "postgres",
    file: VERBS,
    before: `    moveInLane: (id, move, act) =>
      change(id, function* moveInLane(tx, row) {`,
    after: `    moveInLane: (id, move, act) =>
      write(function* moveInLane(tx) {
        const { lane } = yield* planning.find(tx, id, runner.name);
        yield* tx.lock("lane", lane);
        const row = yield* planning.lock(tx, id, runner.name);`,
  },
  {
    name: "postgres-batch-not-locked",
    what: "What changes a batch does not lock it.",
    world: "postgres",
    file: PLANNING,
    before: '"SELECT num FROM batch WHERE id = $1 FOR NO KEY UPDATE"',
    after: '"SELECT num FROM batch WHERE id = $1"',
  },
  {
    name: "postgres-batch-read-before-its-lock",
    what: "What changes a batch reads it, and then waits for its lock.",
    world: "postgres",
    file: PLANNING,
    before: `    const [, row] = yield* together(tx.run(LOCK_BY_ID, id), this.find(tx, id, place));`,
    after: `    const [row] = yield* together(this.find(tx, id, place), tx.run(LOCK_BY_ID, id));`,
  },
  {
    name: "postgres-report-does-not-lock-its-batch",
    what: "A report does not lock its batch: two that settle the last chunks do not see each other.",
    file: SETTLING,
    before: "ORDER BY num FOR NO KEY UPDATE",
    after: "ORDER BY num",
  },
  {
    name: "postgres-lease-does-not-lock-its-batch",
    what: "A lease takes chunks without the lock of their batch.",
    file: LEASING,
    before: "FOR NO KEY UPDATE SKIP LOCKED",
    after: "",
  },
  {
    name: "postgres-step-read-before-its-lock",
    what: "A lease tries the lock of a batch after it has read where its fresh chunks begin.",
    file: LEASING,
    before: `    const [locked, share, row, take] = await Promise.all([
      isHeld ? { num: batch } : tx.get(TRY_LOCK_BATCH, batch),
      this.#shares.tryLock(tx, pipeline, tenant),
      tx.get<StepRow>(SELECT_STEP, batch, number, now),
      readLeasable(tx, step, now, left),
    ]);`,
    after: `    const [row, take, locked, share] = await Promise.all([
      tx.get<StepRow>(SELECT_STEP, batch, number, now),
      readLeasable(tx, step, now, left),
      isHeld ? { num: batch } : tx.get(TRY_LOCK_BATCH, batch),
      this.#shares.tryLock(tx, pipeline, tenant),
    ]);`,
  },
  {
    name: "postgres-lost-lease-taken-without-lock",
    what: "A sweep takes a lost lease back without the lock of its batch.",
    file: "src/adapters/postgres/connection/rules.ts",
    before: "WHERE num = $1 FOR NO KEY UPDATE",
    after: "WHERE num = $1",
  },
  {
    name: "postgres-report-ignores-fence",
    what: "A report counts whatever its fence is, while the chunk is leased individually.",
    file: HELD,
    before: "c.state = 'leased' AND c.fence = l.fence OR",
    after: "c.state = 'leased' AND c.fence >= l.fence OR",
  },
  {
    name: "postgres-successor-not-locked",
    what: "The lane's next batch is started without its lock: it may be ending.",
    world: "postgres",
    file: LANES,
    before: "   FOR NO KEY UPDATE NOWAIT`,\n",
    after: "`,\n",
  },
  {
    name: "postgres-resume-does-not-lock-batches",
    what: "Pausing and resuming do not lock the batches that they concern.",
    world: "postgres",
    file: OPERATORS,
    before: "ORDER BY b.num /*postgres FOR NO KEY UPDATE*/",
    after: "ORDER BY b.num",
  },
  {
    name: "postgres-start-ignores-pauses-under-way",
    what: "A batch starts although a pause of its lane or pipeline is being set.",
    file: TRANSACTION,
    before: "    if (row?.got !== true) throw new LockTaken",
    after: "    if (row === undefined) throw new LockTaken",
  },
  {
    name: "postgres-scope-not-locked",
    what: "Permits of a capped scope are counted without its lock: two workers get the same slot.",
    file: PERMITS,
    before: '      tx.lockAll("scope", names),\n',
    after: "",
  },
  {
    name: "postgres-permits-of-a-worker-not-locked",
    what: "Two requests of a worker change its permits at once: both answers have the same number.",
    file: PERMITS,
    before: "WHERE id = $1 FOR NO KEY UPDATE",
    after: "WHERE id = $1",
  },
  {
    name: "postgres-bucket-not-locked",
    what: "A draw does not lock its bucket: two draws get the same tokens.",
    file: BUCKETS,
    before: "ORDER BY b.bucket, b.key FOR UPDATE OF b",
    after: "ORDER BY b.bucket, b.key",
  },
  {
    name: "postgres-buckets-locked-in-callers-order",
    what: "A draw locks its buckets in the order in which its caller names them.",
    file: BUCKETS,
    before: "ORDER BY b.bucket, b.key FOR UPDATE OF b",
    after: "ORDER BY array_position($2::text[], b.key) FOR UPDATE OF b",
  },
  {
    name: "postgres-content-not-locked",
    what: "A claim reads the owner of a content without locking it: two items take it over.",
    file: CLAIMS,
    before: "WHERE content = ANY($1::text[]) ORDER BY content FOR UPDATE`",
    after: "WHERE content = ANY($1::text[]) ORDER BY content`",
  },
  {
    name: "postgres-content-claimed-twice",
    what: "A claim does not notice that another transaction has just claimed the content.",
    file: CLAIMS,
    before: "if (written < fresh.length) throw",
    after: "if (written > fresh.length) throw",
  },
  {
    name: "postgres-retention-takes-no-lock",
    what: "Retention does not lock the batches that it finds: one of them is being redriven.",
    file: PRUNING,
    world: "postgres",
    before: "/*postgres FOR NO KEY UPDATE OF batch SKIP LOCKED*/`",
    after: "`",
  },
];
