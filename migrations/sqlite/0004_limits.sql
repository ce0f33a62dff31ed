-- What may be started, and when: buckets that all workers draw from. Times are monotonic; with the
-- two clocks of the moment at which a row was saved they can be told after a reboot, too.
CREATE TABLE bucket (
  bucket TEXT NOT NULL,                -- `rate/<name>` or `pace/<batch>`
  key TEXT NOT NULL,                   -- empty where it has none
  paid_until REAL,                     -- see src/core/token-bucket.ts; NULL for a full one
  portions TEXT NOT NULL DEFAULT '[]', -- of a pace: see src/core/pace.ts
  closed_until REAL NOT NULL DEFAULT 0,
  outages INTEGER NOT NULL DEFAULT 0,  -- in a row, since as many items had ended
  outage_mark INTEGER NOT NULL DEFAULT 0,
  idle_at REAL NOT NULL,               -- from then on it is as good as new
  saved_at INTEGER NOT NULL,
  saved_at_monotonic REAL NOT NULL,
  PRIMARY KEY (bucket, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX bucket_idle ON bucket (idle_at);
CREATE INDEX bucket_closed ON bucket (bucket, key) WHERE closed_until > 0;

-- The limit that a chunk waits for, where one made it wait.
ALTER TABLE chunk ADD COLUMN rest_hold_up TEXT
  CHECK (rest_hold_up IN ('rate', 'pace', 'quiet', 'closed'));
ALTER TABLE chunk ADD COLUMN rest_key TEXT;
