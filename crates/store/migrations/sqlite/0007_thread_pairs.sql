-- Format 7: threads are found by their metadata.

-- A row for each pair of a thread's metadata. Of a text it has the first 64 characters, of `true` and `false` the word, of
-- other values nothing: whoever looks for a pair compares the whole value.
CREATE TABLE thread_pairs (
    tenant  TEXT    NOT NULL,
    key     TEXT    NOT NULL,
    value   TEXT    NOT NULL,
    number  INTEGER NOT NULL,  -- as in threads
    PRIMARY KEY (tenant, key, value, number)
) STRICT, WITHOUT ROWID;

-- What `thread_pairs` has to hold.
CREATE VIEW pairs_of_threads (tenant, key, value, number) AS
SELECT t.tenant, p.key,
    CASE p.type WHEN 'text' THEN substr(p.value, 1, 64) WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE '' END,
    t.number
FROM threads t, json_each(t.metadata) p;

INSERT OR IGNORE INTO thread_pairs SELECT * FROM pairs_of_threads;

CREATE TRIGGER thread_inserted AFTER INSERT ON threads WHEN new.metadata <> '{}' BEGIN
    INSERT OR IGNORE INTO thread_pairs SELECT * FROM pairs_of_threads WHERE number = new.number;
END;

CREATE TRIGGER thread_changing BEFORE UPDATE OF metadata ON threads BEGIN
    DELETE FROM thread_pairs WHERE (tenant, key, value, number) IN
        (SELECT * FROM pairs_of_threads WHERE number = old.number);
END;

CREATE TRIGGER thread_changed AFTER UPDATE OF metadata ON threads BEGIN
    INSERT OR IGNORE INTO thread_pairs SELECT * FROM pairs_of_threads WHERE number = new.number;
END;

CREATE TRIGGER thread_deleted BEFORE DELETE ON threads BEGIN
    DELETE FROM thread_pairs WHERE (tenant, key, value, number) IN
        (SELECT * FROM pairs_of_threads WHERE number = old.number);
END;
