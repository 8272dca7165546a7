-- Format 14: threads, their logs, runs and what belongs to them.
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
    -- What its entries carry instead of its name and its tenant's.
    number     int8 not null generated always as identity,
    -- The index over changes goes by the minute. A thread in use changes its row twice a turn. An index that holds the
    -- time itself wants an entry for each change, and so does every other index of the table then; one that holds the
    -- minute wants one a minute, and the changes between stay within the page of the row.
    changed_in timestamp not null generated always as (date_trunc('minute', updated_at at time zone 'UTC')) stored,
    -- The queued run that goes next, by its `num`, while the thread is free. Whoever looks for work does not walk over the
    -- queues of threads that are busy or paused.
    ready      int8,
    primary key (tenant, thread)
) with (fillfactor = 80);
create index threads_by_change on threads (tenant, changed_in);
create index threads_ready on threads (ready) where ready is not null;
-- Threads by age, for garbage collection. Like the other index over changes it goes by the minute.
create index threads_by_age on threads (changed_in, tenant, thread);
-- Threads that did not change since then (milliseconds since 1970) have no old entries any more.
insert into doran_meta (name, value) values ('entries_cleared_before', 0);

-- One row for each pair of a thread's metadata, to find threads by it. A thread's own row knows its pairs.
create table thread_pairs (
    tenant text collate "C" not null,
    pair   bytea not null,
    thread text collate "C" not null,
    primary key (tenant, pair, thread)
);

-- Most rows hold a step alone and are small, so what is around the body counts: columns lie in the order that needs no
-- padding, and the numbers of entries take four bytes. An entry whose parent is the one before it, as nearly all are,
-- leaves it out. Keys that only grow fill their pages.
create table entries (
    at     timestamptz not null,
    number int8 not null,
    seq    int4 not null,
    parent int4,
    base   int4 not null,
    kind   int2 not null,
    run    uuid,
    body   bytea not null,
    primary key (number, seq) with (fillfactor = 100)
);

create table snapshots (
    number int8 not null,
    seq    int4 not null,
    body   bytea not null,
    primary key (number, seq)
);

-- Numbers of logs that belong to no thread: the thread was removed, or a copy is not complete yet. What lies under them is
-- deleted, unless a copy goes on until that time at least.
create table unowned_logs (
    number        int8 primary key,
    copying_until timestamptz
);

-- No index holds a column that a step or a renewal changes, so those updates stay within the page. Room kept free in a
-- page is not found again by the next run, and a change of the status needs an entry in each index anyway. A page without
-- it is tidied when it is full, and filled again.
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
    number        int8 not null,
    primary key (tenant, run) with (fillfactor = 100)
);
create index runs_by_thread on runs (number, run) with (fillfactor = 100);
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

-- Responses to requests with an idempotency key.
create table idempotent_responses (
    tenant       text collate "C" not null,
    key          bytea not null,
    -- Counts up per tenant, so that the oldest can be deleted.
    number       int8 not null,
    request_hash bytea not null,
    expires      timestamptz not null,
    response     bytea not null,
    primary key (tenant, key)
);
create index idempotent_responses_by_number on idempotent_responses (tenant, number);
create index idempotent_responses_by_expiry on idempotent_responses (expires);

-- Items that all threads of a tenant share.
create table items (
    tenant     text collate "C" not null,
    -- Each name followed by the character 31, so that a prefix is a range.
    namespace  text collate "C" not null,
    key        text collate "C" not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    expires    timestamptz,
    value      bytea not null,
    primary key (tenant, namespace, key)
);
create index items_by_expiry on items (expires) where expires is not null;

-- How many items a tenant has, expired ones included.
create table item_counts (
    tenant text collate "C" primary key,
    items  int8 not null
);

-- Timers of sleeping runs and of schedules.
create table timers (
    tenant     text collate "C" not null,
    id         text collate "C" not null,
    kind       int2 not null,
    -- Milliseconds since 1970; null: not due. A time is compared for equality, so it is kept as it was given.
    at         int8,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    body       bytea not null,
    primary key (tenant, id)
);
create index timers_by_time on timers (at) where at is not null;
create index timers_by_kind on timers (tenant, kind, id);

-- Values that all replicas share, with their blobs.
create table key_value_buckets (
    bucket   text collate "C" primary key,
    -- The revision of the newest write. Its row is locked until that write is committed, so revisions appear in order.
    revision int8 not null,
    -- The highest revision of a removal that was forgotten.
    purged   int8 not null default 0
);

create table key_values (
    bucket     text collate "C" not null,
    key        text collate "C" not null,
    revision   int8 not null,
    changed_at timestamptz not null,
    expires    timestamptz,
    -- Null: it was removed.
    value      bytea,
    primary key (bucket, key)
);
create index key_values_by_revision on key_values (bucket, revision);

create table key_value_blobs (
    bucket text collate "C" not null,
    key    text collate "C" not null,
    name   text collate "C" not null,
    bytes  bytea not null,
    primary key (bucket, key, name)
);
-- Files are mostly compressed already.
alter table key_value_blobs alter column bytes set storage external;

-- What deleted runs had used.
create table deleted_usage (
    tenant        text collate "C" not null,
    -- The quarter of an hour in which they were accepted.
    at            timestamptz not null,
    graph         bytea not null,
    runs          int8 not null,
    input_tokens  int8 not null,
    output_tokens int8 not null,
    cost_micros   int8 not null,
    -- Each of them ended well or spent nothing.
    is_exact      bool not null,
    primary key (tenant, at, graph)
);
