-- Format 14: what deleted runs had used.

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
