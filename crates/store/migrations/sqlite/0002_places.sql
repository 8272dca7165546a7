-- Format 2: a thread has a number, and an entry lies at a place made of that number and its own.
--
-- The entries of a thread are neighbours in one tree, so a step changes one page: until now it was one of the table
-- and one of the index beside it, and both repeated the names of tenant and thread in every row.

CREATE TABLE numbered (
    number      INTEGER PRIMARY KEY,
    tenant      TEXT    NOT NULL,
    thread      TEXT    NOT NULL,
    active      BLOB,              -- the run that is running or paused
    ready       INTEGER,           -- ticket of the run that waits for a worker
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    metadata    TEXT    NOT NULL,
    UNIQUE (tenant, thread)
) STRICT;

INSERT INTO numbered (tenant, thread, active, ready, created_at, updated_at, metadata)
SELECT tenant, thread, active, ready, created_at, updated_at, metadata FROM threads ORDER BY rowid;

DROP TABLE threads;
ALTER TABLE numbered RENAME TO threads;
CREATE INDEX threads_by_change ON threads (tenant, updated_at DESC, thread);
CREATE INDEX threads_ready ON threads (ready) WHERE ready IS NOT NULL;

CREATE TABLE placed (
    place   INTEGER PRIMARY KEY,   -- the number of the thread * 2^28 + seq
    seq     INTEGER NOT NULL GENERATED ALWAYS AS (place & 268435455) VIRTUAL,
    parent  INTEGER NOT NULL,
    base    INTEGER NOT NULL,
    run     BLOB,
    at      INTEGER NOT NULL,
    kind    INTEGER NOT NULL,
    body    BLOB    NOT NULL
) STRICT;

INSERT INTO placed (place, parent, base, run, at, kind, body)
SELECT (t.number << 28) + e.seq, e.parent, e.base, e.run, e.at, e.kind, e.body
FROM entries e JOIN threads t ON t.tenant = e.tenant AND t.thread = e.thread
ORDER BY 1;

DROP TABLE entries;
ALTER TABLE placed RENAME TO entries;
