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
