-- What the chain of a batch tells of its items, where its pipeline keeps a ledger of them. These are
-- links between its records and no events: they have no position, and no subscriber reads them.
ALTER TABLE batch ADD COLUMN item_ledger INTEGER NOT NULL DEFAULT 0 CHECK (item_ledger IN (0, 1));

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
  details TEXT,                        -- what may be erased of it
  PRIMARY KEY (batch, seq)
) STRICT;

-- A block that comes twice is written once.
CREATE UNIQUE INDEX ledger_block ON ledger_link (batch, step, chunk, fence, block)
  WHERE block IS NOT NULL;

-- What was signed of a chain, each with the tree over what it covers: the next one goes on from there.
CREATE TABLE ledger_checkpoint (
  batch INTEGER NOT NULL,
  size INTEGER NOT NULL,             -- how many links of the chain it covers
  body TEXT NOT NULL,
  signature TEXT NOT NULL,
  tree TEXT NOT NULL,
  PRIMARY KEY (batch, size)
) STRICT;

-- How the keys that sign were introduced; the private ones are never here.
CREATE TABLE ledger_key (
  place INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  body TEXT NOT NULL,
  signature TEXT NOT NULL
) STRICT;

-- How long a batch is kept when it has ended, where its pipeline promised that: the ages of its settings.
ALTER TABLE batch ADD COLUMN keep_ms INTEGER;           -- can be redriven
ALTER TABLE batch ADD COLUMN keep_evidence_ms INTEGER;  -- is known at all; 0 for ever
-- Nothing is left of what only a redrive needs. Until then a batch that is marked as pruned is not done.
ALTER TABLE batch ADD COLUMN spent INTEGER NOT NULL DEFAULT 0 CHECK (spent IN (0, 1));
UPDATE batch SET spent = 1 WHERE pruned = 1
  AND NOT EXISTS (SELECT 1 FROM manifest m WHERE m.batch = batch.num)
  AND NOT EXISTS (SELECT 1 FROM override o WHERE o.batch = batch.num);

-- What is to be pruned is found without a walk over what is kept: by when it ended, or, where it has an
-- age of its own, by when it is due.
CREATE INDEX batch_scratch_by_age ON batch (ended_at)
  WHERE ended_at IS NOT NULL AND spent = 0 AND keep_ms IS NULL;
CREATE INDEX batch_scratch_due ON batch ((ended_at + keep_ms))
  WHERE ended_at IS NOT NULL AND spent = 0 AND keep_ms IS NOT NULL;
CREATE INDEX batch_evidence_by_age ON batch (ended_at)
  WHERE ended_at IS NOT NULL AND keep_evidence_ms IS NULL;
CREATE INDEX batch_evidence_due ON batch ((ended_at + keep_evidence_ms))
  WHERE ended_at IS NOT NULL AND keep_evidence_ms > 0;
