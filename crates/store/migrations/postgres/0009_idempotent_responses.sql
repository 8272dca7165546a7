-- Format 9: responses to requests with an idempotency key. Before, they were in `cache`, where they expire within a day.

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
