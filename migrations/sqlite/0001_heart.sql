-- Batches, their chunks, and the rows of the few items that need one.
-- Times that end in _at are wall-clock milliseconds (for people) unless the comment says
-- "monotonic": those are milliseconds of the host's clock since its boot, see `host.boot_id`.

-- What this file belongs to. A row whose boot is not the running one means that every lease and
-- back-off in the file is over.
CREATE TABLE host (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  boot_id TEXT NOT NULL
) STRICT;

CREATE TABLE batch (
  num INTEGER PRIMARY KEY,             -- the order of submission
  id TEXT NOT NULL UNIQUE,
  pipeline TEXT NOT NULL,
  version TEXT NOT NULL,
  lane TEXT NOT NULL,
  submit_key TEXT,
  input TEXT,
  input_hash TEXT NOT NULL,
  settings TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN (
    'submitted', 'slicing', 'running',
    'succeeded', 'completed_with_errors', 'failed', 'cancelled', 'expired')),
  open INTEGER NOT NULL CHECK (open IN (0, 1)),
  sealed INTEGER NOT NULL DEFAULT 0 CHECK (sealed IN (0, 1)),
  seal_deadline_at INTEGER,
  reason_code TEXT,
  reason_message TEXT,
  submitted_at INTEGER NOT NULL,
  started_at INTEGER,
  ended_at INTEGER,
  record_seq INTEGER NOT NULL DEFAULT 0,  -- the head of its chain of records
  record_hash TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX batch_submit_key ON batch (pipeline, submit_key) WHERE submit_key IS NOT NULL;
CREATE INDEX batch_unfinished ON batch (pipeline, num) WHERE ended_at IS NULL;
CREATE INDEX batch_unsliced ON batch (pipeline, num) WHERE state IN ('submitted', 'slicing');
CREATE INDEX batch_seal_deadline ON batch (seal_deadline_at)
  WHERE seal_deadline_at IS NOT NULL AND sealed = 0 AND ended_at IS NULL;

-- One pass over a set of items. Its counters are the conservation equation, and the file itself
-- refuses a commit that breaks it.
CREATE TABLE step (
  batch INTEGER NOT NULL REFERENCES batch (num),
  step INTEGER NOT NULL,
  pipeline TEXT NOT NULL,
  version TEXT NOT NULL,
  running INTEGER NOT NULL DEFAULT 0 CHECK (running IN (0, 1)),
  chunks INTEGER NOT NULL DEFAULT 0,
  next_chunk INTEGER NOT NULL DEFAULT 0,  -- chunks from here on were never leased
  slice_cursor TEXT,
  slice_fence INTEGER NOT NULL DEFAULT 0,  -- rises with every slicer
  last_part TEXT,                      -- the newest part of the plan, should it come again
  -- Monotonic: the earliest time at which a chunk may be leased; NULL when there is none.
  leasable_at INTEGER,
  planned INTEGER NOT NULL DEFAULT 0,
  succeeded INTEGER NOT NULL DEFAULT 0,
  skipped INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0,
  cancelled INTEGER NOT NULL DEFAULT 0,
  pending INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (batch, step),
  CONSTRAINT conservation CHECK (
    pending >= 0 AND planned = succeeded + skipped + failed + cancelled + pending),
  CONSTRAINT chunks_in_order CHECK (next_chunk <= chunks)
) STRICT, WITHOUT ROWID;

-- A lease looks here first: no sort, and no walk over a backlog.
CREATE INDEX step_leasable ON step (pipeline, version, batch, step, leasable_at)
  WHERE running = 1 AND leasable_at IS NOT NULL;

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
  PRIMARY KEY (batch, step, item)
) STRICT, WITHOUT ROWID;

CREATE TABLE result (
  batch INTEGER NOT NULL,
  step INTEGER NOT NULL,
  item INTEGER NOT NULL,
  key TEXT,
  value TEXT NOT NULL,
  PRIMARY KEY (batch, step, item)
) STRICT, WITHOUT ROWID;

-- Where keys must be unique; emptied when the batch is sealed.
CREATE TABLE item_key (
  batch INTEGER NOT NULL,
  key TEXT NOT NULL,
  item INTEGER NOT NULL,
  PRIMARY KEY (batch, key)
) STRICT, WITHOUT ROWID;

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

-- How far each durable reader of the records has come.
CREATE TABLE reader (
  name TEXT PRIMARY KEY,
  position INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Duties that one worker at a time should do: slicing a batch, relaying records.
CREATE TABLE claim (
  duty TEXT PRIMARY KEY,
  worker INTEGER NOT NULL,
  until INTEGER NOT NULL               -- monotonic
) STRICT, WITHOUT ROWID;

CREATE TABLE worker (
  id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given twice, as old leases name it
  name TEXT NOT NULL,
  process TEXT NOT NULL,               -- which process on this host it lives in
  pipelines TEXT NOT NULL,
  registered_at INTEGER NOT NULL
) STRICT;
