-- Threads, their logs, runs and what belongs to them.
--
-- The row in `threads` is the lock of its thread: whoever writes anything of a thread locks that row first, so that
-- two writers never wait for each other in a circle. The one exception is a step of a run: it locks the row of its run
-- and nothing else, so it waits for nobody while others wait for it, and whoever takes the run from its worker changes
-- that row. There are no foreign keys: each would cost a look-up for every entry, and rows are only removed together,
-- under the lock of the thread.
--
-- Free text is `bytea` in UTF-8, because `text` and `jsonb` refuse a NUL that the other stores accept. Only names
-- that cannot hold one (tenants, threads) are `text`. What may be long is keyed by its SHA-256: an index takes keys
-- up to 2.7 kB only.

create table threads (
    tenant     text collate "C" not null,
    thread     text collate "C" not null,
    -- The newest entry. While a run is running its entries alone tell, so that a step leaves this row as it is.
    head       int8 not null,
    active     uuid,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    meta_keys  bytea[] not null default '{}',
    meta_vals  bytea[] not null default '{}',
    -- When it last changed, for a thread that is free. While it has a run this stays null, and a run that pauses and
    -- goes on leaves the index below as it is.
    rested_at  timestamptz generated always as (case when active is null then updated_at end) stored,
    primary key (tenant, thread)
) with (fillfactor = 80);
create index threads_by_change on threads (tenant, rested_at, thread);

-- One row for each pair of a thread's metadata, to find threads by it.
create table thread_pairs (
    tenant text collate "C" not null,
    pair   bytea not null,
    thread text collate "C" not null,
    primary key (tenant, thread, pair)
);
create index thread_pairs_by_pair on thread_pairs (tenant, pair, thread);

create table entries (
    tenant text collate "C" not null,
    thread text collate "C" not null,
    seq    int8 not null,
    parent int8 not null,
    base   int8 not null,
    run    uuid,
    at     timestamptz not null,
    kind   int2 not null,
    body   bytea not null,
    primary key (tenant, thread, seq)
);

create table snapshots (
    tenant text collate "C" not null,
    thread text collate "C" not null,
    seq    int8 not null,
    body   bytea not null,
    primary key (tenant, thread, seq)
);

-- No index holds a column that a step or a renewal changes, so those updates stay within the page.
create table runs (
    tenant        text collate "C" not null,
    run           uuid not null,
    thread        text collate "C" not null,
    num           int8 not null generated always as identity,
    graph         bytea not null,
    fingerprint   bytea not null,
    status        int2 not null,
    epoch         int8 not null default 0,
    owner         bytea,
    lease_until   timestamptz,
    cancel_asked  bool not null default false,
    created_at    timestamptz not null,
    started_at    timestamptz,
    ended_at      timestamptz,
    first_seq     int8,
    parent_seq    int8,
    last_seq      int8,
    steps         int8 not null default 0,
    input_tokens  int8 not null default 0,
    output_tokens int8 not null default 0,
    cost_micros   int8 not null default 0,
    error_code    bytea,
    error_message bytea,
    metadata      bytea not null,
    options       bytea not null,
    rank          int2 not null,
    first_kind    int2,
    first_body    bytea,
    first_parent  int8,
    primary key (tenant, run)
) with (fillfactor = 80);
create index runs_by_thread on runs (tenant, thread, run);
create index runs_running on runs (num) where status = 2;
create index runs_queued on runs (num) where status = 1;
create index runs_queue on runs (tenant, thread, rank, num) where status = 1;

create table records (
    tenant text collate "C" not null,
    run    uuid not null,
    digest bytea not null,
    path   bytea not null,
    key    bytea not null,
    stage  int2 not null,
    body   bytea not null,
    primary key (tenant, run, digest)
);

create table idempotency (
    tenant     text collate "C" not null,
    key        bytea not null,
    hash       bytea not null,
    thread     text collate "C" not null,
    run        uuid not null,
    created_at timestamptz not null,
    primary key (tenant, key)
);
create index idempotency_by_thread on idempotency (tenant, thread);
create index idempotency_by_age on idempotency (created_at);

create table cache (
    tenant  text collate "C" not null,
    digest  bytea not null,
    value   bytea not null,
    expires timestamptz,
    primary key (tenant, digest)
);
create index cache_by_age on cache (expires) where expires is not null;
