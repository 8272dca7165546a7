-- Format 12: items that all threads of a tenant share, and timers of sleeping runs and of schedules.

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
