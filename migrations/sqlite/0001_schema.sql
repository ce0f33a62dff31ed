-- All that a store holds, in one file.
-- Times that end in _at are wall-clock milliseconds (for people) unless the comment says
-- "monotonic": those are milliseconds of the host's clock since its boot, see `host.boot_id`.

-- Which boot of the host the monotonic times belong to. After another boot every lease and back-off
-- in the file is over.
CREATE TABLE host (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  boot_id TEXT NOT NULL
) STRICT;

-- ---- Batches ----

-- One run of a pipeline over one input.
CREATE TABLE batch (
  num INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order of submission; never reused
  id TEXT NOT NULL UNIQUE,
  pipeline TEXT NOT NULL,
  version TEXT NOT NULL,
  lane TEXT NOT NULL,
  tenant TEXT NOT NULL DEFAULT '',
  weight REAL NOT NULL DEFAULT 1,      -- as its pipeline declares it
  place REAL NOT NULL,                 -- in the queue of its lane: the lowest is next
  active INTEGER NOT NULL DEFAULT 0 CHECK (active IN (0, 1)),  -- it holds its lane
  submit_key TEXT,
  input TEXT,
  input_hash TEXT NOT NULL,
  settings TEXT NOT NULL,              -- JSON
  caps TEXT,                           -- JSON: the caps in its settings
  max_run_ms REAL,                     -- the limit in its settings
  state TEXT NOT NULL CHECK (state IN (
    'submitted', 'slicing', 'ready', 'running',
    'succeeded', 'completed_with_errors', 'failed', 'cancelled', 'expired')),
  step INTEGER NOT NULL DEFAULT 0,     -- the number of its current step
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
  parked_code TEXT,                    -- why it was taken out of its lane's queue
  parked_message TEXT,
  reason_code TEXT,                    -- why it ended early
  reason_message TEXT,
  pruned INTEGER NOT NULL DEFAULT 0 CHECK (pruned IN (0, 1)),  -- it can no longer be redriven
  -- All that only a redrive needs has been deleted. Pruning goes on until then.
  spent INTEGER NOT NULL DEFAULT 0 CHECK (spent IN (0, 1)),
  -- How long it is kept after its end, where its pipeline promised that: the ages of its settings.
  keep_ms INTEGER,                     -- it can be redriven
  keep_evidence_ms INTEGER,            -- it is known at all; 0 for ever
  submitted_at INTEGER NOT NULL,
  started_at INTEGER,
  ended_at INTEGER,
  activity_at INTEGER NOT NULL,        -- monotonic: the last change that moved it on
  -- Of a batch that ended early: the last item whose `unsent` message was written.
  unsent_after INTEGER,
  item_ledger INTEGER NOT NULL DEFAULT 0 CHECK (item_ledger IN (0, 1)),  -- it records its items
  record_seq INTEGER NOT NULL DEFAULT 0,  -- the head of its chain of records
  record_hash TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX batch_submit_key ON batch (pipeline, submit_key) WHERE submit_key IS NOT NULL;
-- At most one batch holds a lane: not a check but a constraint.
CREATE UNIQUE INDEX batch_holds_lane ON batch (lane) WHERE active = 1;
CREATE INDEX batch_waits_in_lane ON batch (lane, place)
  WHERE active = 0 AND ended_at IS NULL AND parked_code IS NULL;
CREATE INDEX batch_unfinished_in_lane ON batch (lane, place) WHERE ended_at IS NULL;
CREATE INDEX batch_unfinished ON batch (pipeline, num) WHERE ended_at IS NULL;
CREATE INDEX batch_unfinished_of_tenant ON batch (pipeline, tenant, num) WHERE ended_at IS NULL;
CREATE INDEX batch_unsliced ON batch (pipeline, num)
  WHERE state IN ('submitted', 'slicing') AND active = 1;
CREATE INDEX batch_seal_deadline ON batch (seal_deadline_at)
  WHERE seal_deadline_at IS NOT NULL AND sealed = 0 AND ended_at IS NULL;
CREATE INDEX batch_deadline ON batch (deadline_at)
  WHERE deadline_at IS NOT NULL AND ended_at IS NULL;
CREATE INDEX batch_ended ON batch (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX batch_unsent ON batch (num) WHERE unsent_after IS NOT NULL;
-- Pruning finds its batches without a walk over those that are kept: by when they ended, or, where
-- they have an age of their own, by when they are due.
CREATE INDEX batch_scratch_by_age ON batch (ended_at)
  WHERE ended_at IS NOT NULL AND spent = 0 AND keep_ms IS NULL;
CREATE INDEX batch_scratch_due ON batch ((ended_at + keep_ms))
  WHERE ended_at IS NOT NULL AND spent = 0 AND keep_ms IS NOT NULL;
CREATE INDEX batch_evidence_by_age ON batch (ended_at)
  WHERE ended_at IS NOT NULL AND keep_evidence_ms IS NULL;
CREATE INDEX batch_evidence_due ON batch ((ended_at + keep_evidence_ms))
  WHERE ended_at IS NOT NULL AND keep_evidence_ms > 0;

-- One pass over a set of items. Its counters are the conservation equation, and the file itself
-- refuses a commit that breaks it.
CREATE TABLE step (
  batch INTEGER NOT NULL,
  step INTEGER NOT NULL,
  pipeline TEXT NOT NULL,
  version TEXT NOT NULL,
  tenant TEXT NOT NULL DEFAULT '',
  name TEXT NOT NULL,
  chunk_size INTEGER NOT NULL,         -- as in its settings, as is the next
  max_redrives INTEGER NOT NULL,
  watched_failures INTEGER NOT NULL CHECK (watched_failures IN (0, 1)),  -- has a budget or a canary
  running INTEGER NOT NULL DEFAULT 0 CHECK (running IN (0, 1)),  -- its chunks may be leased
  sliced INTEGER NOT NULL DEFAULT 0 CHECK (sliced IN (0, 1)),    -- its plan is complete
  sliced_drive INTEGER NOT NULL DEFAULT 0,  -- the drive in which its plan was last completed
  chunks INTEGER NOT NULL DEFAULT 0,
  base_chunks INTEGER NOT NULL DEFAULT 0,  -- those of drives before the last reopening
  next_chunk INTEGER NOT NULL DEFAULT 0,  -- chunks from here on were never leased
  canary_chunks INTEGER,               -- only these may run yet; NULL when all may
  slice_cursor TEXT,
  slice_fence INTEGER NOT NULL DEFAULT 0,  -- rises with every slicer
  last_part TEXT,                      -- the newest part of the plan, to recognise a repeat
  leasable_at INTEGER,                 -- monotonic: the earliest lease; NULL when there is none
  turn INTEGER NOT NULL DEFAULT 0,     -- its last lease, counted in leases of its pipeline
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

-- A lease looks here first. The leasable steps of a tenant, in rotation: no sort, and no walk over a
-- backlog.
CREATE INDEX step_leasable ON step (pipeline, version, step, tenant, turn, batch, leasable_at)
  WHERE running = 1 AND leasable_at IS NOT NULL;
CREATE INDEX step_watched ON step (watch_due_at) WHERE running = 1;

-- The half-open ranges of a step's items that workers lease.
CREATE TABLE chunk (
  batch INTEGER NOT NULL,
  step INTEGER NOT NULL,
  chunk INTEGER NOT NULL,
  start INTEGER NOT NULL,              -- items [start, finish) of the step
  finish INTEGER NOT NULL,
  state TEXT NOT NULL DEFAULT 'planned'
    CHECK (state IN ('planned', 'leased', 'waiting', 'settled', 'cancelled')),
  fence INTEGER NOT NULL DEFAULT 0,
  worker INTEGER NOT NULL DEFAULT 0,
  lease_until INTEGER NOT NULL DEFAULT 0,  -- monotonic
  due_at INTEGER NOT NULL DEFAULT 0,       -- monotonic
  guarded INTEGER NOT NULL DEFAULT 0 CHECK (guarded IN (0, 1)),
  tracked INTEGER NOT NULL DEFAULT 0 CHECK (tracked IN (0, 1)),  -- some item has a row
  outcomes BLOB NOT NULL,              -- two bits an item; its size never changes
  locator TEXT,
  losses INTEGER NOT NULL DEFAULT 0,   -- leases lost in a row without a sign of life
  edited INTEGER NOT NULL DEFAULT 0 CHECK (edited IN (0, 1)),  -- some item has an override
  rest_hold_up TEXT CHECK (rest_hold_up IN ('rate', 'pace', 'quiet', 'closed')),
  rest_key TEXT,                       -- the limit that it waits for, if it waits for one
  charge REAL NOT NULL DEFAULT 0,      -- what its lease counts as in its tenant's tag
  busy_ms REAL NOT NULL DEFAULT 0,     -- the handler time that was reported under its lease
  PRIMARY KEY (batch, step, chunk)
) STRICT, WITHOUT ROWID;

CREATE INDEX chunk_lease ON chunk (lease_until) WHERE state = 'leased';
CREATE INDEX chunk_due ON chunk (batch, step, due_at, chunk) WHERE state = 'waiting';

-- Items that the batch owns, one blob of JSON lines a chunk.
CREATE TABLE manifest (
  batch INTEGER NOT NULL,
  step INTEGER NOT NULL,
  chunk INTEGER NOT NULL,
  part TEXT NOT NULL,
  items BLOB NOT NULL,
  PRIMARY KEY (batch, step, chunk)
) STRICT;

-- ---- Items ----

-- Items that failed, wait for a retry, or are under suspicion of killing their worker.
CREATE TABLE item (
  batch INTEGER NOT NULL,
  step INTEGER NOT NULL,
  item INTEGER NOT NULL,
  key TEXT,
  attempts INTEGER NOT NULL,
  deaths INTEGER NOT NULL,
  started INTEGER NOT NULL CHECK (started IN (0, 1)),
  dead INTEGER NOT NULL CHECK (dead IN (0, 1)),
  due_at INTEGER NOT NULL,             -- monotonic
  error_class TEXT CHECK (error_class IN ('permanent', 'transient', 'fatal', 'unexpected')),
  code TEXT,
  message TEXT,
  failed_at INTEGER,
  drive INTEGER NOT NULL DEFAULT 1,
  checkpoint_name TEXT,
  checkpoint_data TEXT,
  discarded_by TEXT,
  discarded_why TEXT,
  PRIMARY KEY (batch, step, item)
) STRICT, WITHOUT ROWID;

CREATE INDEX item_dead ON item (batch, step, item) WHERE dead = 1;

-- What handlers returned.
CREATE TABLE result (
  batch INTEGER NOT NULL,
  step INTEGER NOT NULL,
  item INTEGER NOT NULL,
  key TEXT,
  value TEXT NOT NULL,
  drive INTEGER NOT NULL DEFAULT 1,
  PRIMARY KEY (batch, step, item)
) STRICT, WITHOUT ROWID;

CREATE INDEX result_of_redrive ON result (batch, step, drive, item) WHERE drive > 1;

-- The keys of a batch whose keys must be unique; emptied when the batch is sealed.
CREATE TABLE item_key (
  batch INTEGER NOT NULL,
  key TEXT NOT NULL,
  item INTEGER NOT NULL,
  PRIMARY KEY (batch, key)
) STRICT, WITHOUT ROWID;

-- Payloads that an operator put in place of an item's own.
CREATE TABLE override (
  batch INTEGER NOT NULL,
  step INTEGER NOT NULL,
  item INTEGER NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (batch, step, item)
) STRICT, WITHOUT ROWID;

-- What a cancel left running: the batch's end names it.
CREATE TABLE abandoned (
  batch INTEGER NOT NULL,
  step INTEGER NOT NULL,
  chunk INTEGER NOT NULL,
  items TEXT,                          -- JSON; NULL when the worker was lost with them
  PRIMARY KEY (batch, step, chunk)
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

-- ---- Records and topics ----

-- What happened to each batch, as the exact bytes that were hashed.
CREATE TABLE record (
  position INTEGER PRIMARY KEY AUTOINCREMENT,
  batch INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  type TEXT NOT NULL,
  body TEXT NOT NULL,
  hash TEXT NOT NULL,
  UNIQUE (batch, seq)
) STRICT;

-- What the chain of a batch tells of its items, where its pipeline keeps a ledger of them. These are
-- links between its records and no events: they have no position, and no subscriber reads them.
CREATE TABLE ledger_link (
  batch INTEGER NOT NULL,
  seq INTEGER NOT NULL,                -- its place in the chain, which it shares with the records
  body TEXT NOT NULL,
  hash TEXT NOT NULL,
  step INTEGER NOT NULL,
  chunk INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  block INTEGER,                       -- the number of its block under the lease; NULL for none
  lines TEXT,                          -- the block: what handlers recorded
  details TEXT,                        -- the part of it that may be erased
  PRIMARY KEY (batch, seq)
) STRICT;

-- A block that comes twice is written once.
CREATE UNIQUE INDEX ledger_block ON ledger_link (batch, step, chunk, fence, block)
  WHERE block IS NOT NULL;

-- The signed heads of a chain, each with the tree over what it covers: the next one continues it.
CREATE TABLE ledger_head (
  batch INTEGER NOT NULL,
  size INTEGER NOT NULL,               -- how many links of the chain it covers
  body TEXT NOT NULL,
  signature TEXT NOT NULL,
  tree TEXT NOT NULL,
  PRIMARY KEY (batch, size)
) STRICT;

-- How the public keys that sign were introduced. Private keys are never here.
CREATE TABLE ledger_key (
  place INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  body TEXT NOT NULL,
  signature TEXT NOT NULL
) STRICT;

-- Messages that items left in topics, each written with its item's outcome. They outlive their batch:
-- retention deletes them when every group of their topic has acknowledged them.
CREATE TABLE message (
  position INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused, as groups remember it
  topic TEXT NOT NULL,
  id TEXT NOT NULL,                    -- batch/step/item/drive/n, the same for every delivery
  batch TEXT NOT NULL,
  body TEXT NOT NULL,                  -- JSON
  at INTEGER NOT NULL,
  traceparent TEXT                     -- W3C's, where the emitting call was traced
) STRICT;

CREATE INDEX message_of_topic ON message (topic, position);

-- How far each durable reader has come: of the records, or of the topic of which it is a group.
CREATE TABLE reader (
  name TEXT PRIMARY KEY,
  position INTEGER NOT NULL,
  topic TEXT                           -- NULL for a reader of the records
) STRICT, WITHOUT ROWID;

CREATE INDEX reader_of_topic ON reader (topic, name) WHERE topic IS NOT NULL;

-- Events that a subscriber failed to handle and that were given up. The record stays where it is.
CREATE TABLE undelivered (
  id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused, as people write it down
  reader TEXT NOT NULL,
  position INTEGER NOT NULL,           -- of the record
  event TEXT NOT NULL,                 -- the event's id: batch/seq
  batch TEXT NOT NULL,
  type TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  code TEXT NOT NULL,
  message TEXT NOT NULL,
  given_up_at INTEGER NOT NULL,
  UNIQUE (reader, position)
) STRICT;

CREATE INDEX undelivered_of_reader ON undelivered (reader, id);

-- ---- Workers ----

-- Workers, each with its last sign of life.
CREATE TABLE worker (
  id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused, as old leases name it
  name TEXT NOT NULL,
  process TEXT NOT NULL,               -- the process on this host in which it lives
  registered_at INTEGER NOT NULL,
  until INTEGER NOT NULL DEFAULT 0,    -- monotonic: it counts as alive until then
  permit_seq INTEGER NOT NULL DEFAULT 1  -- rises with each change of its permits
) STRICT;

-- Which pipelines each worker works on.
CREATE TABLE served (
  worker INTEGER NOT NULL,
  pipeline TEXT NOT NULL,
  version TEXT NOT NULL,
  only_batch TEXT NOT NULL,            -- its id; empty for a worker that takes any
  PRIMARY KEY (pipeline, version, worker, only_batch)
) STRICT, WITHOUT ROWID;

-- Duties that one worker at a time should do: slicing a batch, relaying records.
CREATE TABLE claim (
  task TEXT PRIMARY KEY,
  worker INTEGER NOT NULL,
  until INTEGER NOT NULL               -- monotonic
) STRICT, WITHOUT ROWID;

-- ---- Lanes, pauses and limits ----

-- Lanes with a policy of their own; the others block.
CREATE TABLE lane (
  name TEXT PRIMARY KEY,
  policy TEXT NOT NULL CHECK (policy IN ('block', 'skip', 'park'))
) STRICT, WITHOUT ROWID;

-- What is paused, and by whom.
CREATE TABLE pause (
  scope TEXT NOT NULL CHECK (scope IN ('batch', 'lane', 'pipeline')),
  name TEXT NOT NULL,
  mode TEXT NOT NULL CHECK (mode IN ('drain', 'now')),
  paused_by TEXT NOT NULL,
  why TEXT,
  paused_at INTEGER NOT NULL,
  PRIMARY KEY (scope, name)
) STRICT, WITHOUT ROWID;

-- The buckets of rates and paces, from which all workers draw. Times are monotonic. The two clocks at
-- the moment of saving make them readable after a reboot.
CREATE TABLE bucket (
  bucket TEXT NOT NULL,                -- `rate/<name>` or `pace/<batch>/<step>`
  key TEXT NOT NULL,                   -- empty where it has none
  paid_until REAL,                     -- see token-bucket.ts; NULL for a full one
  portions TEXT NOT NULL DEFAULT '[]', -- of a pace: see pace.ts
  closed_until REAL NOT NULL DEFAULT 0,
  outages INTEGER NOT NULL DEFAULT 0,  -- outages in a row
  outage_mark INTEGER NOT NULL DEFAULT 0,  -- how many items had ended when the last one began
  idle_at REAL NOT NULL,               -- from then on it is as good as new
  saved_at INTEGER NOT NULL,
  saved_at_monotonic REAL NOT NULL,
  PRIMARY KEY (bucket, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX bucket_idle ON bucket (idle_at);
CREATE INDEX bucket_closed ON bucket (bucket, key) WHERE closed_until > 0;

-- Tenants with work, and how far each has been served, in virtual milliseconds.
CREATE TABLE share (
  pipeline TEXT NOT NULL,
  tenant TEXT NOT NULL,
  finish REAL NOT NULL DEFAULT 0,      -- 0 before the first lease
  owed REAL NOT NULL DEFAULT 0,        -- overcharged since the last lease
  item_ms REAL,                        -- expected time of an item; NULL before the first lease
  weight REAL NOT NULL DEFAULT 1,      -- at its last lease
  PRIMARY KEY (pipeline, tenant)
) STRICT, WITHOUT ROWID;

CREATE INDEX share_order ON share (pipeline, finish, tenant);

-- The virtual time of each pipeline, against which its tenants' shares are measured.
CREATE TABLE share_clock (
  pipeline TEXT PRIMARY KEY,
  virtual REAL NOT NULL,
  item_ms REAL NOT NULL,
  turns INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

-- How many handlers at once a worker may run in a scope that has a cap.
CREATE TABLE permit (
  scope TEXT NOT NULL,                 -- batch/<id>, lane/<name>, pipeline/<name>
  worker INTEGER NOT NULL,
  pipeline TEXT NOT NULL,              -- the pipeline for whose work it was granted
  slots INTEGER NOT NULL CHECK (slots >= 0),
  declared INTEGER,                    -- the cap that the batch itself declares
  until INTEGER NOT NULL,              -- monotonic
  PRIMARY KEY (scope, worker)
) STRICT, WITHOUT ROWID;

CREATE INDEX permit_of_worker ON permit (worker, scope);
CREATE INDEX permit_until ON permit (until);

-- The limits that operators set in place of those that pipelines declare.
CREATE TABLE limit_setting (
  kind TEXT NOT NULL CHECK (kind IN ('cap', 'weight', 'rate')),
  scope TEXT NOT NULL CHECK (scope IN ('batch', 'lane', 'pipeline', 'tenant', 'rate')),
  name TEXT NOT NULL,
  value TEXT NOT NULL,                 -- JSON
  PRIMARY KEY (kind, scope, name)
) STRICT, WITHOUT ROWID;

-- Every change of those limits: who, when and why. Rows are only added.
CREATE TABLE limit_change (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  changed_by TEXT NOT NULL,
  why TEXT,
  kind TEXT NOT NULL,
  scope TEXT NOT NULL,
  name TEXT NOT NULL,
  before TEXT,                         -- JSON; NULL where there was none
  after TEXT
) STRICT;
