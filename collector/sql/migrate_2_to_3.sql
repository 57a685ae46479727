-- Readers bring what they keep up to date, trace by trace: each trace says in which fold it changed, and the
-- database which one it is and how often traces were removed. All that is there was there before.
ALTER TABLE trace_rows ADD COLUMN IF NOT EXISTS changed_in BIGINT DEFAULT 0;
INSERT INTO meta VALUES ('store_id', CAST(uuid() AS VARCHAR)), ('removals', '0') ON CONFLICT DO NOTHING;
