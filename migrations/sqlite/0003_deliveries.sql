-- Events that a subscriber did not take, and that were given up. The record itself stays where it
-- is; a letter says which one it was, for whom, and why.
CREATE TABLE undelivered (
  id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given twice, as people write it down
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
