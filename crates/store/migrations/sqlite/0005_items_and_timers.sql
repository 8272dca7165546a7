-- Format 5: items that all threads of a tenant share, and timers of sleeping runs and of schedules.

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
