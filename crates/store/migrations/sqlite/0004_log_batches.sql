-- Format 4: long logs are removed and copied in batches, and garbage collection looks at what changed.

-- Numbers of logs that belong to no thread: the thread was removed, or a copy is not complete yet. No thread gets such a
-- number. What lies under it is deleted, unless it is being copied.
CREATE TABLE unowned_logs (
    number   INTEGER PRIMARY KEY,
    copying  INTEGER NOT NULL
) STRICT;

-- A snapshot lies at the place of its entry, so that it goes with the number of its thread as the entry does.
CREATE TABLE placed_snapshots (
    place  INTEGER PRIMARY KEY,   -- as in entries
    state  BLOB    NOT NULL
) STRICT;

INSERT INTO placed_snapshots (place, state)
SELECT (t.number << 28) + s.seq, s.state FROM threads t JOIN snapshots s ON s.tenant = t.tenant AND s.thread = t.thread
ORDER BY t.number, s.seq;

DROP TABLE snapshots;
ALTER TABLE placed_snapshots RENAME TO snapshots;

CREATE INDEX idempotency_by_age ON idempotency (at);
CREATE INDEX cache_by_age ON cache (until) WHERE until IS NOT NULL;

-- Threads that did not change since then have no old entries any more.
CREATE TABLE gc_progress (entries_cleared_before INTEGER NOT NULL) STRICT;
INSERT INTO gc_progress (entries_cleared_before) VALUES (0);
