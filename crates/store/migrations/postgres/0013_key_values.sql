-- Format 13: values that all replicas share, with their blobs.

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
