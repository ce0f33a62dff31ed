-- The life of a batch: lanes, steps, cancelling and pausing, redrives, checkpoints, retention.
-- `batch` and `step` are rebuilt, as SQLite cannot change a CHECK in place.

CREATE TABLE batch_new (
  num INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order of submission; never given twice
  id TEXT NOT NULL UNIQUE,
  pipeline TEXT NOT NULL,
  version TEXT NOT NULL,
  lane TEXT NOT NULL,
  place REAL NOT NULL,                 -- in the queue of its lane: the lowest is next
  active INTEGER NOT NULL DEFAULT 0 CHECK (active IN (0, 1)),  -- it holds its lane
  submit_key TEXT,
  input TEXT,
  input_hash TEXT NOT NULL,
  settings TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN (
    'submitted', 'slicing', 'ready', 'running',
    'succeeded', 'completed_with_errors', 'failed', 'cancelled', 'expired')),
  step INTEGER NOT NULL DEFAULT 0,     -- the one that it is at
  open INTEGER NOT NULL CHECK (open IN (0, 1)),
  sealed INTEGER NOT NULL DEFAULT 0 CHECK (sealed IN (0, 1)),
  seal_deadline_at INTEGER,
  deadline_at INTEGER,
  drive INTEGER NOT NULL DEFAULT 1,    -- one more with every redrive
  since_drive INTEGER NOT NULL DEFAULT 1,  -- results from this drive on are new to its step
  cancel_mode TEXT CHECK (cancel_mode IN ('drain', 'now')),
  cancel_by TEXT,
  cancel_why TEXT,
  cancel_at INTEGER,
  parked_code TEXT,                    -- taken out of its lane's queue
  parked_message TEXT,
  reason_code TEXT,
  reason_message TEXT,
  pruned INTEGER NOT NULL DEFAULT 0 CHECK (pruned IN (0, 1)),
  submitted_at INTEGER NOT NULL,
  started_at INTEGER,
  ended_at INTEGER,
  activity_at INTEGER NOT NULL,        -- when somebody last moved it on
  record_seq INTEGER NOT NULL DEFAULT 0,  -- the head of its chain of records
  record_hash TEXT NOT NULL
) STRICT;

-- The oldest unfinished batch of each lane holds it; the others wait for their turn.
INSERT INTO batch_new (num, id, pipeline, version, lane, place, active, submit_key, input,
  input_hash, settings, state, open, sealed, seal_deadline_at, reason_code, reason_message,
  submitted_at, started_at, ended_at, activity_at, record_seq, record_hash)
SELECT num, id, pipeline, version, lane, num,
  ended_at IS NULL AND num = (
    SELECT min(o.num) FROM batch o WHERE o.lane = batch.lane AND o.ended_at IS NULL),
  submit_key, input, input_hash,
  json_object('strict', json(iif(settings ->> 'strict', 'true', 'false')), 'steps', json_array(json_object(
    'budget', NULL, 'canary', NULL, 'carries', json('false'),
    'chunkSize', settings ->> 'chunkSize', 'maxRedrives', 0, 'name', pipeline))),
  state, open, sealed, seal_deadline_at, reason_code, reason_message, submitted_at, started_at,
  ended_at, coalesce(started_at, submitted_at), record_seq, record_hash
FROM batch;
UPDATE batch_new SET state = 'ready' WHERE state = 'running' AND active = 0;

CREATE TABLE step_new (
  batch INTEGER NOT NULL,
  step INTEGER NOT NULL,
  pipeline TEXT NOT NULL,
  version TEXT NOT NULL,
  name TEXT NOT NULL,
  running INTEGER NOT NULL DEFAULT 0 CHECK (running IN (0, 1)),  -- its chunks may be leased
  sliced INTEGER NOT NULL DEFAULT 0 CHECK (sliced IN (0, 1)),    -- its plan is complete
  sliced_drive INTEGER NOT NULL DEFAULT 0,  -- the drive in which its plan was last completed
  chunks INTEGER NOT NULL DEFAULT 0,
  base_chunks INTEGER NOT NULL DEFAULT 0,  -- those of drives before the last reopening
  next_chunk INTEGER NOT NULL DEFAULT 0,  -- chunks from here on were never leased
  canary_chunks INTEGER,               -- only these may run yet; NULL when all may
  slice_cursor TEXT,
  slice_fence INTEGER NOT NULL DEFAULT 0,  -- rises with every slicer
  last_part TEXT,                      -- the newest part of the plan, should it come again
  -- Monotonic: the earliest time at which a chunk may be leased; NULL when there is none.
  leasable_at INTEGER,
  passes INTEGER NOT NULL DEFAULT 0,   -- automatic redrives of its dead letters
  watch_previous INTEGER,
  watch_stalls INTEGER NOT NULL DEFAULT 0,
  watch_due_at INTEGER NOT NULL DEFAULT 0,  -- monotonic
  planned INTEGER NOT NULL DEFAULT 0,
  succeeded INTEGER NOT NULL DEFAULT 0,
  skipped INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0,
  cancelled INTEGER NOT NULL DEFAULT 0,
  pending INTEGER NOT NULL DEFAULT 0,
  -- The dead letters among the failed, by the class of their error.
  failed_permanent INTEGER NOT NULL DEFAULT 0,
  failed_transient INTEGER NOT NULL DEFAULT 0,
  failed_unexpected INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (batch, step),
  CONSTRAINT conservation CHECK (
    pending >= 0 AND planned = succeeded + skipped + failed + cancelled + pending),
  CONSTRAINT chunks_in_order CHECK (next_chunk <= chunks)
) STRICT, WITHOUT ROWID;

INSERT INTO step_new (batch, step, pipeline, version, name, running, sliced, chunks, next_chunk,
  slice_cursor, slice_fence, last_part, leasable_at, planned, succeeded, skipped, failed,
  cancelled, pending, failed_permanent, failed_transient, failed_unexpected)
SELECT s.batch, s.step, s.pipeline, s.version, s.pipeline, s.running AND b.active,
  EXISTS (SELECT 1 FROM record r WHERE r.batch = s.batch AND r.type = 'slicing.finished'),
  s.chunks, s.next_chunk,
  s.slice_cursor, s.slice_fence, s.last_part, s.leasable_at, s.planned, s.succeeded, s.skipped,
  s.failed, s.cancelled, s.pending,
  (SELECT count(*) FROM item i WHERE i.batch = s.batch AND i.dead = 1 AND i.error_class = 'permanent'),
  (SELECT count(*) FROM item i WHERE i.batch = s.batch AND i.dead = 1 AND i.error_class = 'transient'),
  (SELECT count(*) FROM item i WHERE i.batch = s.batch AND i.dead = 1 AND i.error_class = 'unexpected')
FROM step s JOIN batch_new b ON b.num = s.batch;

DROP TABLE step;
DROP TABLE batch;
ALTER TABLE batch_new RENAME TO batch;
ALTER TABLE step_new RENAME TO step;

CREATE UNIQUE INDEX batch_submit_key ON batch (pipeline, submit_key) WHERE submit_key IS NOT NULL;
-- At most one batch holds a lane: not a check but a constraint.
CREATE UNIQUE INDEX batch_holds_lane ON batch (lane) WHERE active = 1;
CREATE INDEX batch_waits_in_lane ON batch (lane, place)
  WHERE active = 0 AND ended_at IS NULL AND parked_code IS NULL;
CREATE INDEX batch_unfinished_in_lane ON batch (lane, place) WHERE ended_at IS NULL;
CREATE INDEX batch_unfinished ON batch (pipeline, num) WHERE ended_at IS NULL;
CREATE INDEX batch_unsliced ON batch (pipeline, num)
  WHERE state IN ('submitted', 'slicing') AND active = 1;
CREATE INDEX batch_seal_deadline ON batch (seal_deadline_at)
  WHERE seal_deadline_at IS NOT NULL AND sealed = 0 AND ended_at IS NULL;
CREATE INDEX batch_deadline ON batch (deadline_at)
  WHERE deadline_at IS NOT NULL AND ended_at IS NULL;
CREATE INDEX batch_ended ON batch (ended_at) WHERE ended_at IS NOT NULL;

-- A lease looks here first: no sort, and no walk over a backlog.
CREATE INDEX step_leasable ON step (pipeline, version, step, batch, leasable_at)
  WHERE running = 1 AND leasable_at IS NOT NULL;
CREATE INDEX step_watched ON step (watch_due_at) WHERE running = 1;

-- Leases lost in a row without a sign of life; whether an item of it was edited.
ALTER TABLE chunk ADD COLUMN losses INTEGER NOT NULL DEFAULT 0;
ALTER TABLE chunk ADD COLUMN edited INTEGER NOT NULL DEFAULT 0 CHECK (edited IN (0, 1));
-- Workers of the release before do not know of turns: what they hold runs out.
UPDATE chunk SET lease_until = 0 WHERE state = 'leased';

ALTER TABLE item ADD COLUMN drive INTEGER NOT NULL DEFAULT 1;
ALTER TABLE item ADD COLUMN checkpoint_name TEXT;
ALTER TABLE item ADD COLUMN checkpoint_data TEXT;
ALTER TABLE item ADD COLUMN discarded_by TEXT;
ALTER TABLE item ADD COLUMN discarded_why TEXT;
CREATE INDEX item_dead ON item (batch, step, item) WHERE dead = 1;

ALTER TABLE result ADD COLUMN drive INTEGER NOT NULL DEFAULT 1;
CREATE INDEX result_of_redrive ON result (batch, step, drive, item) WHERE drive > 1;

-- Payloads that somebody put in place of an item's own.
CREATE TABLE override (
  batch INTEGER NOT NULL,
  step INTEGER NOT NULL,
  item INTEGER NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (batch, step, item)
) STRICT, WITHOUT ROWID;

-- What a cancel left running: its end names it.
CREATE TABLE abandoned (
  batch INTEGER NOT NULL,
  step INTEGER NOT NULL,
  chunk INTEGER NOT NULL,
  items TEXT,                          -- JSON; NULL when the worker was lost with them
  PRIMARY KEY (batch, step, chunk)
) STRICT, WITHOUT ROWID;

CREATE TABLE pause (
  scope TEXT NOT NULL CHECK (scope IN ('batch', 'lane', 'pipeline')),
  name TEXT NOT NULL,
  mode TEXT NOT NULL CHECK (mode IN ('drain', 'now')),
  paused_by TEXT NOT NULL,
  why TEXT,
  paused_at INTEGER NOT NULL,
  PRIMARY KEY (scope, name)
) STRICT, WITHOUT ROWID;

-- Lanes with a policy of their own; the others block.
CREATE TABLE lane (
  name TEXT PRIMARY KEY,
  policy TEXT NOT NULL CHECK (policy IN ('block', 'skip', 'park'))
) STRICT, WITHOUT ROWID;

-- Contents that must not be worked on twice: claimed with a lease, final with a success.
CREATE TABLE content (
  content TEXT PRIMARY KEY,
  batch INTEGER NOT NULL,
  step INTEGER NOT NULL,
  chunk INTEGER NOT NULL,
  item INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  final INTEGER NOT NULL DEFAULT 0 CHECK (final IN (0, 1))
) STRICT, WITHOUT ROWID;
CREATE INDEX content_of_batch ON content (batch);

ALTER TABLE worker DROP COLUMN pipelines;
ALTER TABLE worker ADD COLUMN until INTEGER NOT NULL DEFAULT 0;  -- monotonic: its sign of life

CREATE TABLE served (
  worker INTEGER NOT NULL,
  pipeline TEXT NOT NULL,
  version TEXT NOT NULL,
  only_batch TEXT NOT NULL,            -- its id; empty for a worker that takes any
  PRIMARY KEY (pipeline, version, worker, only_batch)
) STRICT, WITHOUT ROWID;
