-- Sharing: tenants of a pipeline have shares of its workers, and scopes have caps.

ALTER TABLE batch ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
UPDATE batch SET tenant = lane;
ALTER TABLE batch ADD COLUMN weight REAL NOT NULL DEFAULT 1;  -- as its pipeline declares it
CREATE INDEX batch_unfinished_of_tenant ON batch (pipeline, tenant, num) WHERE ended_at IS NULL;

ALTER TABLE step ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
-- When it was last leased from, counted in leases of its pipeline.
ALTER TABLE step ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;
UPDATE step SET tenant = (SELECT b.tenant FROM batch b WHERE b.num = step.batch);

-- The leasable steps of a tenant, in rotation: no sort, and no walk over a backlog.
DROP INDEX step_leasable;
CREATE INDEX step_leasable ON step (pipeline, version, step, tenant, turn, batch, leasable_at)
  WHERE running = 1 AND leasable_at IS NOT NULL;

-- What a lease counts as in its tenant's tag, and the handler time that was reported under it.
ALTER TABLE chunk ADD COLUMN charge REAL NOT NULL DEFAULT 0;
ALTER TABLE chunk ADD COLUMN busy_ms REAL NOT NULL DEFAULT 0;

-- Tenants with work, and how far each has been served, in virtual milliseconds.
CREATE TABLE share (
  pipeline TEXT NOT NULL,
  tenant TEXT NOT NULL,
  finish REAL NOT NULL DEFAULT 0,      -- 0 before the first lease
  owed REAL NOT NULL DEFAULT 0,        -- charged too much since the last one
  item_ms REAL,                        -- what an item is expected to take; NULL before the first lease
  weight REAL NOT NULL DEFAULT 1,      -- at its last lease
  PRIMARY KEY (pipeline, tenant)
) STRICT, WITHOUT ROWID;
CREATE INDEX share_order ON share (pipeline, finish, tenant);
INSERT INTO share (pipeline, tenant)
  SELECT DISTINCT pipeline, tenant FROM step WHERE running = 1;

CREATE TABLE share_clock (
  pipeline TEXT PRIMARY KEY,
  virtual REAL NOT NULL,
  item_ms REAL NOT NULL,
  turns INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- How many handlers at once a worker may run in a scope that has a cap.
CREATE TABLE permit (
  scope TEXT NOT NULL,                 -- batch/<id>, lane/<name>, pipeline/<name>
  worker INTEGER NOT NULL,
  pipeline TEXT NOT NULL,              -- for whose work it was granted
  slots INTEGER NOT NULL CHECK (slots >= 0),
  declared INTEGER,                    -- the cap that the batch itself declares
  until INTEGER NOT NULL,              -- monotonic
  PRIMARY KEY (scope, worker)
) STRICT, WITHOUT ROWID;
CREATE INDEX permit_of_worker ON permit (worker, scope);
CREATE INDEX permit_until ON permit (until);

-- What operators set in place of what pipelines declare.
CREATE TABLE limit_setting (
  kind TEXT NOT NULL CHECK (kind IN ('cap', 'weight', 'rate')),
  scope TEXT NOT NULL CHECK (scope IN ('batch', 'lane', 'pipeline', 'tenant', 'rate')),
  name TEXT NOT NULL,
  value TEXT NOT NULL,                 -- JSON
  PRIMARY KEY (kind, scope, name)
) STRICT, WITHOUT ROWID;

-- Every change of them: who, when and why. Only added to.
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
