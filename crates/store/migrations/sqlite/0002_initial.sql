-- Format 2.
--
-- Large bodies lie in rowid tables, which fill their pages in the order of writing; the key is an index beside
-- them. A table WITHOUT ROWID would push every body over about 1 kB out to a page of its own.

-- A step writes its entry and nothing else: the newest entry of a thread is found by the key of `entries`.
CREATE TABLE threads (
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

CREATE INDEX threads_by_change ON threads (tenant, updated_at DESC, thread);
CREATE INDEX threads_ready ON threads (ready) WHERE ready IS NOT NULL;

-- An entry lies at a place made of the number of its thread and its own. The entries of a thread are neighbours in one
-- tree, so a step changes one page.
CREATE TABLE entries (
    place   INTEGER PRIMARY KEY,   -- the number of the thread * 2^28 + seq
    seq     INTEGER NOT NULL GENERATED ALWAYS AS (place & 268435455) VIRTUAL,
    parent  INTEGER NOT NULL,
    base    INTEGER NOT NULL,
    run     BLOB,
    at      INTEGER NOT NULL,
    kind    INTEGER NOT NULL,
    body    BLOB    NOT NULL
) STRICT;

CREATE TABLE snapshots (
    tenant  TEXT    NOT NULL,
    thread  TEXT    NOT NULL,
    seq     INTEGER NOT NULL,
    state   BLOB    NOT NULL,
    PRIMARY KEY (tenant, thread, seq)
) STRICT;

CREATE TABLE runs (
    tenant         TEXT    NOT NULL,
    run            BLOB    NOT NULL,
    thread         TEXT    NOT NULL,
    status         INTEGER NOT NULL,
    epoch          INTEGER NOT NULL,
    held           INTEGER NOT NULL,  -- a worker has it
    cancel_asked   INTEGER NOT NULL,
    ticket         INTEGER NOT NULL,  -- since when it waits, as a number that only grows
    created_at     INTEGER NOT NULL,
    started_at     INTEGER,
    ended_at       INTEGER,
    first_seq      INTEGER,
    parent_seq     INTEGER,
    last_seq       INTEGER,
    steps          INTEGER NOT NULL,
    input_tokens   INTEGER NOT NULL,
    output_tokens  INTEGER NOT NULL,
    cost_micros    INTEGER NOT NULL,
    graph          TEXT    NOT NULL,
    fingerprint    TEXT    NOT NULL,
    error_code     TEXT,
    error_message  TEXT,
    metadata       TEXT    NOT NULL,
    options        BLOB    NOT NULL,
    PRIMARY KEY (tenant, run)
) STRICT;

CREATE INDEX runs_by_thread ON runs (tenant, thread, run);
-- Runs that have not ended are few: lists of them and the start after a crash do not walk over the others.
CREATE INDEX runs_open ON runs (status, tenant, run) WHERE status < 4;

-- What a queued run will begin with.
CREATE TABLE queue (
    tenant    TEXT    NOT NULL,
    thread    TEXT    NOT NULL,
    enqueued  INTEGER NOT NULL,  -- 0: it interrupts, and goes before those that wait their turn
    ticket    INTEGER NOT NULL,
    run       BLOB    NOT NULL,
    kind      INTEGER NOT NULL,
    parent    INTEGER,
    body      BLOB    NOT NULL,
    PRIMARY KEY (tenant, thread, enqueued, ticket)
) STRICT;

CREATE TABLE records (
    tenant  TEXT    NOT NULL,
    run     BLOB    NOT NULL,
    path    TEXT    NOT NULL,
    key     TEXT    NOT NULL,
    stage   INTEGER NOT NULL,
    body    BLOB    NOT NULL,
    PRIMARY KEY (tenant, run, path, key)
) STRICT;

CREATE TABLE idempotency (
    tenant  TEXT    NOT NULL,
    key     TEXT    NOT NULL,
    hash    TEXT    NOT NULL,
    run     BLOB    NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_by_run ON idempotency (tenant, run);

CREATE TABLE cache (
    tenant  TEXT    NOT NULL,
    key     TEXT    NOT NULL,
    until   INTEGER,
    value   BLOB    NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT;
