-- The trace in which a message was emitted, where somebody traced: W3C's traceparent.
ALTER TABLE message ADD COLUMN traceparent text COLLATE "C";
