-- Messages that items left in topics, each written with its item's outcome. They outlive their batch:
-- retention takes them when every group of their topic has acknowledged them.
CREATE TABLE message (
  position INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given twice, as groups remember it
  topic TEXT NOT NULL,
  id TEXT NOT NULL,                    -- batch/step/item/drive/n, the same for every delivery
  batch TEXT NOT NULL,
  body TEXT NOT NULL,                  -- JSON
  at INTEGER NOT NULL
) STRICT;

CREATE INDEX message_of_topic ON message (topic, position);

-- A reader's stream: NULL for the records, or the topic of which it is a group.
ALTER TABLE reader ADD COLUMN topic TEXT;
CREATE INDEX reader_of_topic ON reader (topic, name) WHERE topic IS NOT NULL;

-- Of a batch that ended early: the last item of which it was told that it was left undone.
ALTER TABLE batch ADD COLUMN unsent_after INTEGER;
CREATE INDEX batch_unsent ON batch (num) WHERE unsent_after IS NOT NULL;
