-- Format 6: what deleted runs had used.

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
