-- What the chain of a batch tells of its items, where its pipeline keeps a ledger of them. These are
-- links between its records and no events: they have no position, and no subscriber reads them.
ALTER TABLE batch ADD COLUMN item_ledger smallint NOT NULL DEFAULT 0 CHECK (item_ledger IN (0, 1));

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
  details text,                        -- what may be erased of it
  size integer NOT NULL,               -- what it counts as in a page, in characters
  PRIMARY KEY (batch, seq)
);

-- A block that comes twice is written once.
CREATE UNIQUE INDEX ledger_block ON ledger_link (batch, step, chunk, fence, block)
  WHERE block IS NOT NULL;

-- What was signed of a chain, each with the tree over what it covers: the next one goes on from there.
CREATE TABLE ledger_checkpoint (
  batch bigint NOT NULL,
  size integer NOT NULL,             -- how many links of the chain it covers
  body text NOT NULL,
  signature text NOT NULL,
  tree text NOT NULL,
  PRIMARY KEY (batch, size)
);

-- How the keys that sign were introduced; the private ones are never here.
CREATE TABLE ledger_key (
  place bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text COLLATE "C" NOT NULL UNIQUE,
  body text NOT NULL,
  signature text NOT NULL
);

-- How long a batch is kept when it has ended, where its pipeline promised that: the ages of its settings.
ALTER TABLE batch ADD COLUMN keep_ms bigint;           -- can be redriven
ALTER TABLE batch ADD COLUMN keep_evidence_ms bigint;  -- is known at all; 0 for ever
-- Nothing is left of what only a redrive needs. Until then a batch that is marked as pruned is not done.
ALTER TABLE batch ADD COLUMN spent smallint NOT NULL DEFAULT 0 CHECK (spent IN (0, 1));
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
