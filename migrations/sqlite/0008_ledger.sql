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
