-- Format 3: responses to requests with an idempotency key. Before, they were in `cache`, where they expire within a day.

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
