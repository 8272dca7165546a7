-- Format 6.
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

-- A snapshot lies at the place of its entry, so that it goes with the number of its thread as the entry does.
CREATE TABLE snapshots (
    place  INTEGER PRIMARY KEY,   -- as in entries
    state  BLOB    NOT NULL
) STRICT;

-- Numbers of logs that belong to no thread: the thread was removed, or a copy is not complete yet. No thread gets such a
-- number. What lies under it is deleted, unless it is being copied.
CREATE TABLE unowned_logs (
    number   INTEGER PRIMARY KEY,
    copying  INTEGER NOT NULL
) STRICT;

-- Threads that did not change since then have no old entries any more.
CREATE TABLE gc_progress (entries_cleared_before INTEGER NOT NULL) STRICT;
INSERT INTO gc_progress (entries_cleared_before) VALUES (0);

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
CREATE INDEX idempotency_by_age ON idempotency (at);

CREATE TABLE cache (
    tenant  TEXT    NOT NULL,
    key     TEXT    NOT NULL,
    until   INTEGER,
    value   BLOB    NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT;

CREATE INDEX cache_by_age ON cache (until) WHERE until IS NOT NULL;

-- Responses to requests with an idempotency key.
CREATE TABLE idempotent_responses (
    tenant        TEXT    NOT NULL,
    key           TEXT    NOT NULL,
    number        INTEGER NOT NULL,  -- counts up per tenant, so that the oldest can be deleted
    request_hash  TEXT    NOT NULL,
    expires       INTEGER NOT NULL,
    response      BLOB    NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT;

CREATE INDEX idempotent_responses_by_number ON idempotent_responses (tenant, number);
CREATE INDEX idempotent_responses_by_expiry ON idempotent_responses (expires);

-- Items that all threads of a tenant share.
CREATE TABLE items (
    tenant      TEXT    NOT NULL,
    namespace   TEXT    NOT NULL,  -- each name followed by the character 31, so that a prefix is a range
    key         TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    expires     INTEGER,
    value       BLOB    NOT NULL,
    PRIMARY KEY (tenant, namespace, key)
) STRICT;

CREATE INDEX items_by_expiry ON items (expires) WHERE expires IS NOT NULL;

-- How many items a tenant has, expired ones included.
CREATE TABLE item_counts (
    tenant  TEXT    PRIMARY KEY NOT NULL,
    items   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER items_inserted AFTER INSERT ON items BEGIN
    INSERT INTO item_counts (tenant, items) VALUES (NEW.tenant, 1) ON CONFLICT DO UPDATE SET items = items + 1;
END;

CREATE TRIGGER items_deleted AFTER DELETE ON items BEGIN
    UPDATE item_counts SET items = items - 1 WHERE tenant = OLD.tenant;
END;

-- Timers of sleeping runs and of schedules.
CREATE TABLE timers (
    tenant      TEXT    NOT NULL,
    id          TEXT    NOT NULL,
    kind        INTEGER NOT NULL,
    at          INTEGER,           -- null: not due
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    body        BLOB    NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT;

CREATE INDEX timers_by_time ON timers (at) WHERE at IS NOT NULL;
CREATE INDEX timers_by_kind ON timers (tenant, kind, id);

-- What deleted runs had used.
CREATE TABLE deleted_usage (
    tenant         TEXT    NOT NULL,
    at             INTEGER NOT NULL,  -- the quarter of an hour in which they were accepted
    graph          TEXT    NOT NULL,
    runs           INTEGER NOT NULL,
    input_tokens   INTEGER NOT NULL,
    output_tokens  INTEGER NOT NULL,
    cost_micros    INTEGER NOT NULL,
    is_exact       INTEGER NOT NULL,  -- each of them ended well or spent nothing
    PRIMARY KEY (tenant, at, graph)
) STRICT, WITHOUT ROWID;
