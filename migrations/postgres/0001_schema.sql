-- All that a store holds, in the schema of its own that the search path names.
-- Times that end in _at, and `until`, are milliseconds of the server's clock since 1970. Flags are 0
-- and 1 and text is compared by its bytes, as in the embedded store: one reading of rows serves both.
-- Tables that work as queues keep room in their pages (fillfactor), so that an update stays in its
-- page and touches no index. They are vacuumed after a number of changed rows, not after a fraction.

-- ---- Batches ----

-- One run of a pipeline over one input.
CREATE TABLE batch (
  num bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- the order of submission; never reused
  id text COLLATE "C" NOT NULL UNIQUE,
  pipeline text COLLATE "C" NOT NULL,
  version text COLLATE "C" NOT NULL,
  lane text COLLATE "C" NOT NULL,
  tenant text COLLATE "C" NOT NULL,
  weight double precision NOT NULL DEFAULT 1,  -- as its pipeline declares it
  place double precision NOT NULL,     -- in the queue of its lane: the lowest is next
  active smallint NOT NULL DEFAULT 0 CHECK (active IN (0, 1)),  -- it holds its lane
  submit_key text COLLATE "C",
  input text,
  input_hash text COLLATE "C" NOT NULL,
  settings text NOT NULL,              -- JSON
  caps text,                           -- JSON: the caps in its settings
  max_run_ms double precision,         -- the limit in its settings
  state text COLLATE "C" NOT NULL CHECK (state IN (
    'submitted', 'slicing', 'ready', 'running',
    'succeeded', 'completed_with_errors', 'failed', 'cancelled', 'expired')),
  step integer NOT NULL DEFAULT 0,     -- the number of its current step
  open smallint NOT NULL CHECK (open IN (0, 1)),
  sealed smallint NOT NULL DEFAULT 0 CHECK (sealed IN (0, 1)),
  seal_deadline_at bigint,
  deadline_at bigint,
  drive integer NOT NULL DEFAULT 1,    -- one more with every redrive
  since_drive integer NOT NULL DEFAULT 1,  -- results from this drive on are new to its step
  cancel_mode text COLLATE "C" CHECK (cancel_mode IN ('drain', 'now')),
  cancel_by text,
  cancel_why text,
  cancel_at bigint,
  parked_code text,                    -- why it was taken out of its lane's queue
  parked_message text,
  reason_code text,                    -- why it ended early
  reason_message text,
  pruned smallint NOT NULL DEFAULT 0 CHECK (pruned IN (0, 1)),  -- it can no longer be redriven
  -- All that only a redrive needs has been deleted. Pruning goes on until then.
  spent smallint NOT NULL DEFAULT 0 CHECK (spent IN (0, 1)),
  -- How long it is kept after its end, where its pipeline promised that: the ages of its settings.
  keep_ms bigint,                      -- it can be redriven
  keep_evidence_ms bigint,             -- it is known at all; 0 for ever
  submitted_at bigint NOT NULL,
  started_at bigint,
  ended_at bigint,
  activity_at bigint NOT NULL,         -- the last change that moved it on
  -- Of a batch that ended early: the last item whose `unsent` message was written.
  unsent_after bigint,
  item_ledger smallint NOT NULL DEFAULT 0 CHECK (item_ledger IN (0, 1)),  -- it records its items
  record_seq integer NOT NULL DEFAULT 0,  -- the head of its chain of records
  record_hash text COLLATE "C" NOT NULL
) WITH (fillfactor = 70);

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

-- One pass over a set of items. Its counters are the conservation equation, and the store itself
-- refuses a commit that breaks it.
CREATE TABLE step (
  batch bigint NOT NULL,
  step integer NOT NULL,
  pipeline text COLLATE "C" NOT NULL,
  version text COLLATE "C" NOT NULL,
  tenant text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  chunk_size integer NOT NULL,         -- as in its settings, as is the next
  max_redrives integer NOT NULL,
  watched_failures smallint NOT NULL CHECK (watched_failures IN (0, 1)),  -- has a budget or a canary
  running smallint NOT NULL DEFAULT 0 CHECK (running IN (0, 1)),  -- its chunks may be leased
  sliced smallint NOT NULL DEFAULT 0 CHECK (sliced IN (0, 1)),    -- its plan is complete
  sliced_drive integer NOT NULL DEFAULT 0,  -- the drive in which its plan was last completed
  chunks integer NOT NULL DEFAULT 0,
  base_chunks integer NOT NULL DEFAULT 0,  -- those of drives before the last reopening
  next_chunk integer NOT NULL DEFAULT 0,  -- chunks from here on were never leased
  canary_chunks integer,               -- only these may run yet; NULL when all may
  slice_cursor text,
  slice_fence bigint NOT NULL DEFAULT 0,  -- rises with every slicer
  last_part text COLLATE "C",          -- the newest part of the plan, to recognise a repeat
  leasable_at bigint,                  -- the earliest lease; NULL when there is none
  turn bigint NOT NULL DEFAULT 0,      -- its last lease, counted in leases
  passes integer NOT NULL DEFAULT 0,   -- automatic redrives of its dead letters
  watch_previous bigint,
  watch_stalls integer NOT NULL DEFAULT 0,
  watch_due_at bigint NOT NULL DEFAULT 0,
  planned bigint NOT NULL DEFAULT 0,
  succeeded bigint NOT NULL DEFAULT 0,
  skipped bigint NOT NULL DEFAULT 0,
  failed bigint NOT NULL DEFAULT 0,
  cancelled bigint NOT NULL DEFAULT 0,
  pending bigint NOT NULL DEFAULT 0,
  -- The dead letters among the failed, by the class of their error.
  failed_permanent bigint NOT NULL DEFAULT 0,
  failed_transient bigint NOT NULL DEFAULT 0,
  failed_unexpected bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (batch, step),
  CONSTRAINT conservation CHECK (
    pending >= 0 AND planned = succeeded + skipped + failed + cancelled + pending),
  CONSTRAINT chunks_in_order CHECK (next_chunk <= chunks)
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- A lease looks here first. What changes with every settle is not in the index, so a counter is
-- updated within its page.
CREATE INDEX step_leasable ON step (pipeline, version, step, tenant, batch)
  WHERE running = 1 AND leasable_at IS NOT NULL;
CREATE INDEX step_watched ON step (batch, step) WHERE running = 1;

-- The order of leases over all pipelines: see `step.turn`.
CREATE SEQUENCE lease_turn;

-- The half-open ranges of a step's items that workers lease.
CREATE TABLE chunk (
  batch bigint NOT NULL,
  step integer NOT NULL,
  chunk integer NOT NULL,
  start bigint NOT NULL,               -- items [start, finish) of the step
  finish bigint NOT NULL,
  state text COLLATE "C" NOT NULL DEFAULT 'planned'
    CHECK (state IN ('planned', 'leased', 'waiting', 'settled', 'cancelled')),
  fence bigint NOT NULL DEFAULT 0,
  worker bigint NOT NULL DEFAULT 0,    -- its holder; 0 unless it is leased by itself
  lease_until bigint NOT NULL DEFAULT 0,
  due_at bigint,                       -- NULL unless it waits
  -- Flags without a CHECK: with small chunks most of the work is writing this row.
  guarded smallint NOT NULL DEFAULT 0,
  tracked smallint NOT NULL DEFAULT 0,  -- some item has a row
  edited smallint NOT NULL DEFAULT 0,   -- some item has an override
  losses integer NOT NULL DEFAULT 0,   -- leases lost in a row without a sign of life
  charge double precision NOT NULL DEFAULT 0,   -- what its lease counts as in its tenant's tag
  busy_ms double precision NOT NULL DEFAULT 0,  -- the handler time that was reported under it
  rest_hold_up text COLLATE "C" CHECK (rest_hold_up IN ('rate', 'pace', 'quiet', 'closed')),
  rest_key text COLLATE "C",           -- the limit that it waits for, if it waits for one
  outcomes bytea NOT NULL,             -- two bits an item; its size never changes
  locator text,
  PRIMARY KEY (batch, step, chunk)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 5000);

-- By columns that a chunk which is planned and settled never changes: its row is written within its
-- page, and no index is touched.
CREATE INDEX chunk_leased ON chunk (batch, step, chunk) WHERE worker > 0;
CREATE INDEX chunk_due ON chunk (batch, step, due_at, chunk) WHERE due_at IS NOT NULL;

-- Chunks that were leased together and for the first time: one row for [first, finish). None of
-- their own rows is written: they say `planned` still, are leased all the same, and their fence is one
-- higher than they say. Each leaves the run when it is written. See lease-runs.ts.
CREATE TABLE lease (
  batch bigint NOT NULL,
  step integer NOT NULL,
  first integer NOT NULL,
  finish integer NOT NULL,
  left_chunks integer NOT NULL CHECK (left_chunks > 0),  -- those still in it
  worker bigint NOT NULL CHECK (worker > 0),
  until bigint NOT NULL,
  item_cost double precision NOT NULL, -- what each item counts as in its tenant's tag
  PRIMARY KEY (batch, step, first)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX lease_of_worker ON lease (worker);

-- Items that the batch owns, one blob of JSON lines a chunk.
CREATE TABLE manifest (
  batch bigint NOT NULL,
  step integer NOT NULL,
  chunk integer NOT NULL,
  part text COLLATE "C" NOT NULL,
  items bytea NOT NULL,
  PRIMARY KEY (batch, step, chunk)
);

-- ---- Items ----

-- Items that failed, wait for a retry, or are under suspicion of killing their worker.
CREATE TABLE item (
  batch bigint NOT NULL,
  step integer NOT NULL,
  item bigint NOT NULL,
  key text COLLATE "C",
  attempts integer NOT NULL,
  deaths integer NOT NULL,
  started smallint NOT NULL CHECK (started IN (0, 1)),
  dead smallint NOT NULL CHECK (dead IN (0, 1)),
  due_at bigint NOT NULL,
  error_class text COLLATE "C"
    CHECK (error_class IN ('permanent', 'transient', 'fatal', 'unexpected')),
  code text COLLATE "C",
  message text,
  failed_at bigint,
  drive integer NOT NULL DEFAULT 1,
  checkpoint_name text,
  checkpoint_data text,
  discarded_by text,
  discarded_why text,
  PRIMARY KEY (batch, step, item)
) WITH (fillfactor = 80);

CREATE INDEX item_dead ON item (batch, step, item) WHERE dead = 1;

-- What handlers returned.
CREATE TABLE result (
  batch bigint NOT NULL,
  step integer NOT NULL,
  item bigint NOT NULL,
  key text COLLATE "C",
  value text NOT NULL,
  drive integer NOT NULL DEFAULT 1,
  PRIMARY KEY (batch, step, item)
);

CREATE INDEX result_of_redrive ON result (batch, step, drive, item) WHERE drive > 1;

-- The keys of a batch whose keys must be unique; emptied when the batch is sealed.
CREATE TABLE item_key (
  batch bigint NOT NULL,
  key text COLLATE "C" NOT NULL,
  item bigint NOT NULL,
  PRIMARY KEY (batch, key)
);

-- Payloads that an operator put in place of an item's own.
CREATE TABLE override (
  batch bigint NOT NULL,
  step integer NOT NULL,
  item bigint NOT NULL,
  value text NOT NULL,
  PRIMARY KEY (batch, step, item)
);

-- What a cancel left running: the batch's end names it.
CREATE TABLE abandoned (
  batch bigint NOT NULL,
  step integer NOT NULL,
  chunk integer NOT NULL,
  items text,                          -- JSON; NULL when the worker was lost with them
  PRIMARY KEY (batch, step, chunk)
);

-- Contents that must not be worked on twice: claimed with a lease, final with a success.
CREATE TABLE content (
  content text COLLATE "C" PRIMARY KEY,
  batch bigint NOT NULL,
  step integer NOT NULL,
  chunk integer NOT NULL,
  item bigint NOT NULL,
  fence bigint NOT NULL,
  final smallint NOT NULL DEFAULT 0 CHECK (final IN (0, 1))
) WITH (fillfactor = 70);

CREATE INDEX content_of_batch ON content (batch);

-- ---- Records and topics ----

-- What happened to each batch, as the exact bytes that were hashed. Commits end in any order, and a
-- reader must not pass one that is still under way. So a record has no position at first: the next
-- reader after its commit numbers it.
CREATE TABLE record (
  batch bigint NOT NULL,
  seq integer NOT NULL,
  written bigint GENERATED ALWAYS AS IDENTITY,  -- the order of writing
  position bigint,
  type text COLLATE "C" NOT NULL,
  body text NOT NULL,
  hash text COLLATE "C" NOT NULL,
  PRIMARY KEY (batch, seq)
);

CREATE UNIQUE INDEX record_position ON record (position) WHERE position IS NOT NULL;
CREATE INDEX record_unnumbered ON record (written) WHERE position IS NULL;

CREATE SEQUENCE record_positions;

-- What the chain of a batch tells of its items, where its pipeline keeps a ledger of them. These are
-- links between its records and no events: they have no position, and no subscriber reads them.
CREATE TABLE ledger_link (
  batch bigint NOT NULL,
  seq integer NOT NULL,                -- its place in the chain, which it shares with the records
  body text NOT NULL,
  hash text COLLATE "C" NOT NULL,
  step integer NOT NULL,
  chunk integer NOT NULL,
  fence bigint NOT NULL,
  block integer,                       -- the number of its block under the lease; NULL for none
  lines text,                          -- the block: what handlers recorded
  details text,                        -- the part of it that may be erased
  size integer NOT NULL,               -- what it counts as in a page, in characters
  PRIMARY KEY (batch, seq)
);

-- A block that comes twice is written once.
CREATE UNIQUE INDEX ledger_block ON ledger_link (batch, step, chunk, fence, block)
  WHERE block IS NOT NULL;

-- The signed heads of a chain, each with the tree over what it covers: the next one continues it.
CREATE TABLE ledger_head (
  batch bigint NOT NULL,
  size integer NOT NULL,               -- how many links of the chain it covers
  body text NOT NULL,
  signature text NOT NULL,
  tree text NOT NULL,
  PRIMARY KEY (batch, size)
);

-- How the public keys that sign were introduced. Private keys are never here.
CREATE TABLE ledger_key (
  place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text COLLATE "C" NOT NULL UNIQUE,
  body text NOT NULL,
  signature text NOT NULL
);

-- Messages that items left in topics, each written with its item's outcome. They outlive their batch:
-- retention deletes them when every group of their topic has acknowledged them.
CREATE TABLE message (
  written bigint GENERATED ALWAYS AS IDENTITY,  -- the order of writing
  position bigint,                     -- numbered as in `record`
  topic text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,        -- batch/step/item/drive/n, the same for every delivery
  batch text COLLATE "C" NOT NULL,
  body text NOT NULL,                  -- JSON
  at bigint NOT NULL,
  traceparent text COLLATE "C"         -- W3C's, where the emitting call was traced
);

CREATE UNIQUE INDEX message_of_topic ON message (topic, position) WHERE position IS NOT NULL;
CREATE INDEX message_unnumbered ON message (written) WHERE position IS NULL;

CREATE SEQUENCE message_positions;

-- How far each durable reader has come: of the records, or of the topic of which it is a group.
CREATE TABLE reader (
  name text COLLATE "C" PRIMARY KEY,
  topic text COLLATE "C",              -- NULL for a reader of the records
  position bigint NOT NULL
) WITH (fillfactor = 50);

CREATE INDEX reader_of_topic ON reader (topic, name) WHERE topic IS NOT NULL;

-- Events that a subscriber failed to handle and that were given up. The record stays where it is.
CREATE TABLE undelivered (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- never reused, as people write it down
  reader text COLLATE "C" NOT NULL,
  position bigint NOT NULL,            -- of the record
  event text COLLATE "C" NOT NULL,     -- the event's id: batch/seq
  batch text COLLATE "C" NOT NULL,
  type text COLLATE "C" NOT NULL,
  attempts integer NOT NULL,
  code text NOT NULL,
  message text NOT NULL,
  given_up_at bigint NOT NULL,
  UNIQUE (reader, position)
);

CREATE INDEX undelivered_of_reader ON undelivered (reader, id);

-- ---- Workers ----

-- Workers, each with its last sign of life.
CREATE TABLE worker (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- never reused, as old leases name it
  name text NOT NULL,
  process text NOT NULL,               -- the host and process in which it lives
  registered_at bigint NOT NULL,
  until bigint NOT NULL DEFAULT 0,     -- it counts as alive until then
  permit_seq bigint NOT NULL DEFAULT 1 -- rises with each change of its permits
) WITH (fillfactor = 50);

-- Which pipelines each worker works on.
CREATE TABLE served (
  worker bigint NOT NULL,
  pipeline text COLLATE "C" NOT NULL,
  version text COLLATE "C" NOT NULL,
  only_batch text COLLATE "C" NOT NULL,  -- its id; empty for a worker that takes any
  PRIMARY KEY (pipeline, version, worker, only_batch)
);

CREATE INDEX served_by ON served (worker);

-- Duties that one worker at a time should do: slicing a batch, relaying records.
CREATE TABLE claim (
  task text COLLATE "C" PRIMARY KEY,
  worker bigint NOT NULL,
  until bigint NOT NULL
) WITH (fillfactor = 50);

-- ---- Lanes, pauses and limits ----

-- Lanes with a policy of their own; the others block.
CREATE TABLE lane (
  name text COLLATE "C" PRIMARY KEY,
  policy text COLLATE "C" NOT NULL CHECK (policy IN ('block', 'skip', 'park'))
);

-- What is paused, and by whom.
CREATE TABLE pause (
  scope text COLLATE "C" NOT NULL CHECK (scope IN ('batch', 'lane', 'pipeline')),
  name text COLLATE "C" NOT NULL,
  mode text COLLATE "C" NOT NULL CHECK (mode IN ('drain', 'now')),
  paused_by text NOT NULL,
  why text,
  paused_at bigint NOT NULL,
  PRIMARY KEY (scope, name)
);

-- The buckets of rates and paces, from which all workers draw.
CREATE TABLE bucket (
  bucket text COLLATE "C" NOT NULL,    -- `rate/<name>` or `pace/<batch>/<step>`
  key text COLLATE "C" NOT NULL,       -- empty where it has none
  paid_until double precision,         -- see token-bucket.ts; NULL for a full one
  portions text NOT NULL DEFAULT '[]', -- of a pace: see pace.ts
  closed_until double precision NOT NULL DEFAULT 0,
  outages integer NOT NULL DEFAULT 0,  -- outages in a row
  outage_mark bigint NOT NULL DEFAULT 0,  -- how many items had ended when the last one began
  idle_at double precision NOT NULL,   -- from then on it is as good as new
  PRIMARY KEY (bucket, key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX bucket_closed ON bucket (bucket, key) WHERE closed_until > 0;

-- Tenants with work, and how far each has been served, in virtual milliseconds.
CREATE TABLE share (
  pipeline text COLLATE "C" NOT NULL,
  tenant text COLLATE "C" NOT NULL,
  finish double precision NOT NULL DEFAULT 0,  -- 0 before the first lease
  owed double precision NOT NULL DEFAULT 0,    -- overcharged since the last lease
  item_ms double precision,            -- expected time of an item; NULL before the first lease
  weight double precision NOT NULL DEFAULT 1,  -- at its last lease
  PRIMARY KEY (pipeline, tenant)
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- The virtual time of each pipeline, against which its tenants' shares are measured.
CREATE TABLE share_clock (
  pipeline text COLLATE "C" PRIMARY KEY,
  virtual double precision NOT NULL,
  item_ms double precision NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- How many handlers at once a worker may run in a scope that has a cap.
CREATE TABLE permit (
  scope text COLLATE "C" NOT NULL,     -- batch/<id>, lane/<name>, pipeline/<name>
  worker bigint NOT NULL,
  pipeline text COLLATE "C" NOT NULL,  -- the pipeline for whose work it was granted
  slots integer NOT NULL CHECK (slots >= 0),
  declared integer,                    -- the cap that the batch itself declares
  until bigint NOT NULL,
  PRIMARY KEY (scope, worker)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX permit_of_worker ON permit (worker, scope);

-- The limits that operators set in place of those that pipelines declare.
CREATE TABLE limit_setting (
  kind text COLLATE "C" NOT NULL CHECK (kind IN ('cap', 'weight', 'rate')),
  scope text COLLATE "C" NOT NULL CHECK (scope IN ('batch', 'lane', 'pipeline', 'tenant', 'rate')),
  name text COLLATE "C" NOT NULL,
  value text NOT NULL,                 -- JSON
  PRIMARY KEY (kind, scope, name)
);

-- Every change of those limits: who, when and why. Rows are only added.
CREATE TABLE limit_change (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at bigint NOT NULL,
  changed_by text NOT NULL,
  why text,
  kind text COLLATE "C" NOT NULL,
  scope text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  before text,                         -- JSON; NULL where there was none
  after text
);
