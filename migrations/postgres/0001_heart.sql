-- All that a store holds, in the schema of its own that the search path names.
-- Times that end in _at, and `until`, are milliseconds of the server's clock since 1970. Flags are 0
-- and 1 and text is compared by its bytes, as in the embedded store: one reading of rows serves both.
-- Tables that work as queues keep room in their pages (fillfactor), so that an update stays in its
-- page and touches no index, and are vacuumed by rows changed, not by a part of all that they hold.

CREATE TABLE batch (
  num bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- the order of submission; never given twice
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
  caps text,                           -- JSON: those of the settings
  max_run_ms double precision,         -- that of the settings
  state text COLLATE "C" NOT NULL CHECK (state IN (
    'submitted', 'slicing', 'ready', 'running',
    'succeeded', 'completed_with_errors', 'failed', 'cancelled', 'expired')),
  step integer NOT NULL DEFAULT 0,     -- the one that it is at
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
  parked_code text,                    -- taken out of its lane's queue
  parked_message text,
  reason_code text,
  reason_message text,
  pruned smallint NOT NULL DEFAULT 0 CHECK (pruned IN (0, 1)),
  submitted_at bigint NOT NULL,
  started_at bigint,
  ended_at bigint,
  activity_at bigint NOT NULL,         -- when somebody last moved it on
  unsent_after bigint,                 -- of an early end: the last item that was told of as undone
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

-- One pass over a set of items. Its counters are the conservation equation, and the store itself
-- refuses a commit that breaks it.
CREATE TABLE step (
  batch bigint NOT NULL,
  step integer NOT NULL,
  pipeline text COLLATE "C" NOT NULL,
  version text COLLATE "C" NOT NULL,
  tenant text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  chunk_size integer NOT NULL,         -- those of its settings
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
  last_part text COLLATE "C",          -- the newest part of the plan, should it come again
  leasable_at bigint,                  -- from when a chunk may be leased; NULL when there is none
  turn bigint NOT NULL DEFAULT 0,      -- when it was last leased from, counted in leases
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

-- A lease looks here first. What changes with every settle is not in the index: its counters are
-- updated within their page.
CREATE INDEX step_leasable ON step (pipeline, version, step, tenant, batch)
  WHERE running = 1 AND leasable_at IS NOT NULL;
CREATE INDEX step_watched ON step (batch, step) WHERE running = 1;

CREATE SEQUENCE lease_turn;

CREATE TABLE chunk (
  batch bigint NOT NULL,
  step integer NOT NULL,
  chunk integer NOT NULL,
  start bigint NOT NULL,               -- items [start, finish) of the step
  finish bigint NOT NULL,
  state text COLLATE "C" NOT NULL DEFAULT 'planned'
    CHECK (state IN ('planned', 'leased', 'waiting', 'settled', 'cancelled')),
  fence bigint NOT NULL DEFAULT 0,
  worker bigint NOT NULL DEFAULT 0,    -- who has it; 0 unless it is leased by itself
  lease_until bigint NOT NULL DEFAULT 0,
  due_at bigint,                       -- NULL unless it waits
  -- Flags, without a CHECK each: with small chunks most of the work is writing this row.
  guarded smallint NOT NULL DEFAULT 0,
  tracked smallint NOT NULL DEFAULT 0,  -- some item has a row
  edited smallint NOT NULL DEFAULT 0,   -- some item has an override
  losses integer NOT NULL DEFAULT 0,   -- leases lost in a row without a sign of life
  charge double precision NOT NULL DEFAULT 0,   -- what its lease counts as in its tenant's tag
  busy_ms double precision NOT NULL DEFAULT 0,  -- the handler time that was reported under it
  rest_hold_up text COLLATE "C" CHECK (rest_hold_up IN ('rate', 'pace', 'quiet', 'closed')),
  rest_key text COLLATE "C",           -- the limit that it waits for, where one makes it wait
  outcomes bytea NOT NULL,             -- two bits an item; its size never changes
  locator text,
  PRIMARY KEY (batch, step, chunk)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 5000);

-- By columns that a chunk which is planned and settled never changes: then its row is written within
-- its page, and no index is touched.
CREATE INDEX chunk_leased ON chunk (batch, step, chunk) WHERE worker > 0;
CREATE INDEX chunk_due ON chunk (batch, step, due_at, chunk) WHERE due_at IS NOT NULL;

-- Chunks that were leased together and for the first time: one row for [first, finish), and none of
-- theirs is written. They say `planned` still, are leased all the same, and their fence is one higher
-- than they say; each leaves the run when it is written. See src/adapters/postgres/lease-runs.ts.
CREATE TABLE lease (
  batch bigint NOT NULL,
  step integer NOT NULL,
  first integer NOT NULL,
  finish integer NOT NULL,
  left_chunks integer NOT NULL CHECK (left_chunks > 0),  -- those that have not left it
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

-- Where keys must be unique; emptied when the batch is sealed.
CREATE TABLE item_key (
  batch bigint NOT NULL,
  key text COLLATE "C" NOT NULL,
  item bigint NOT NULL,
  PRIMARY KEY (batch, key)
);

-- Payloads that somebody put in place of an item's own.
CREATE TABLE override (
  batch bigint NOT NULL,
  step integer NOT NULL,
  item bigint NOT NULL,
  value text NOT NULL,
  PRIMARY KEY (batch, step, item)
);

-- What a cancel left running: its end names it.
CREATE TABLE abandoned (
  batch bigint NOT NULL,
  step integer NOT NULL,
  chunk integer NOT NULL,
  items text,                          -- JSON; NULL when the worker was lost with them
  PRIMARY KEY (batch, step, chunk)
);

-- What happened to each batch, as the exact bytes that were hashed. Commits end in any order, and a
-- reader must not pass one that is still under way: so a record gets its position, by which readers
-- go, from whoever reads next after its commit.
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

-- Messages that items left in topics, each written with its item's outcome. They outlive their batch:
-- retention takes them when every group of their topic has acknowledged them. Positions as above.
CREATE TABLE message (
  written bigint GENERATED ALWAYS AS IDENTITY,
  position bigint,
  topic text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,        -- batch/step/item/drive/n, the same for every delivery
  batch text COLLATE "C" NOT NULL,
  body text NOT NULL,                  -- JSON
  at bigint NOT NULL
);
CREATE UNIQUE INDEX message_of_topic ON message (topic, position) WHERE position IS NOT NULL;
CREATE INDEX message_unnumbered ON message (written) WHERE position IS NULL;
CREATE SEQUENCE message_positions;

-- How far each durable reader has come: of the records, or of the topic of which it is a group.
CREATE TABLE reader (
  name text COLLATE "C" PRIMARY KEY,
  topic text COLLATE "C",
  position bigint NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX reader_of_topic ON reader (topic, name) WHERE topic IS NOT NULL;

-- Events that a subscriber did not take, and that were given up.
CREATE TABLE undelivered (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- never given twice, as people write it down
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

-- Duties that one worker at a time should do: slicing a batch, relaying records.
CREATE TABLE claim (
  duty text COLLATE "C" PRIMARY KEY,
  worker bigint NOT NULL,
  until bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE worker (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- never given twice, as old leases name it
  name text NOT NULL,
  process text NOT NULL,               -- which process on which host it lives in
  registered_at bigint NOT NULL,
  until bigint NOT NULL DEFAULT 0      -- its sign of life
) WITH (fillfactor = 50);

CREATE TABLE served (
  worker bigint NOT NULL,
  pipeline text COLLATE "C" NOT NULL,
  version text COLLATE "C" NOT NULL,
  only_batch text COLLATE "C" NOT NULL,  -- its id; empty for a worker that takes any
  PRIMARY KEY (pipeline, version, worker, only_batch)
);
CREATE INDEX served_by ON served (worker);

CREATE TABLE pause (
  scope text COLLATE "C" NOT NULL CHECK (scope IN ('batch', 'lane', 'pipeline')),
  name text COLLATE "C" NOT NULL,
  mode text COLLATE "C" NOT NULL CHECK (mode IN ('drain', 'now')),
  paused_by text NOT NULL,
  why text,
  paused_at bigint NOT NULL,
  PRIMARY KEY (scope, name)
);

-- Lanes with a policy of their own; the others block.
CREATE TABLE lane (
  name text COLLATE "C" PRIMARY KEY,
  policy text COLLATE "C" NOT NULL CHECK (policy IN ('block', 'skip', 'park'))
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

-- What may be started, and when: buckets that all workers draw from.
CREATE TABLE bucket (
  bucket text COLLATE "C" NOT NULL,    -- `rate/<name>` or `pace/<batch>`
  key text COLLATE "C" NOT NULL,       -- empty where it has none
  paid_until double precision,         -- see src/core/token-bucket.ts; NULL for a full one
  portions text NOT NULL DEFAULT '[]', -- of a pace: see src/core/pace.ts
  closed_until double precision NOT NULL DEFAULT 0,
  outages integer NOT NULL DEFAULT 0,  -- in a row, since as many items had ended
  outage_mark bigint NOT NULL DEFAULT 0,
  idle_at double precision NOT NULL,   -- from then on it is as good as new
  PRIMARY KEY (bucket, key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX bucket_closed ON bucket (bucket, key) WHERE closed_until > 0;

-- Tenants with work, and how far each has been served, in virtual milliseconds.
CREATE TABLE share (
  pipeline text COLLATE "C" NOT NULL,
  tenant text COLLATE "C" NOT NULL,
  finish double precision NOT NULL DEFAULT 0,  -- 0 before the first lease
  owed double precision NOT NULL DEFAULT 0,    -- charged too much since the last one
  item_ms double precision,            -- what an item is expected to take; NULL before the first lease
  weight double precision NOT NULL DEFAULT 1,  -- at its last lease
  PRIMARY KEY (pipeline, tenant)
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE TABLE share_clock (
  pipeline text COLLATE "C" PRIMARY KEY,
  virtual double precision NOT NULL,
  item_ms double precision NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- How many handlers at once a worker may run in a scope that has a cap.
CREATE TABLE permit (
  scope text COLLATE "C" NOT NULL,     -- batch/<id>, lane/<name>, pipeline/<name>
  worker bigint NOT NULL,
  pipeline text COLLATE "C" NOT NULL,  -- for whose work it was granted
  slots integer NOT NULL CHECK (slots >= 0),
  declared integer,                    -- the cap that the batch itself declares
  until bigint NOT NULL,
  PRIMARY KEY (scope, worker)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX permit_of_worker ON permit (worker, scope);

-- What operators set in place of what pipelines declare.
CREATE TABLE limit_setting (
  kind text COLLATE "C" NOT NULL CHECK (kind IN ('cap', 'weight', 'rate')),
  scope text COLLATE "C" NOT NULL CHECK (scope IN ('batch', 'lane', 'pipeline', 'tenant', 'rate')),
  name text COLLATE "C" NOT NULL,
  value text NOT NULL,                 -- JSON
  PRIMARY KEY (kind, scope, name)
);

-- Every change of them: who, when and why. Only added to.
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
