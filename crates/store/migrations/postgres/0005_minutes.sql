-- The index over changes goes by the minute. A thread in use changes its row twice a turn. An index that holds the time
-- itself wants an entry for each change, and so does every other index of the table then; one that holds the minute wants
-- one a minute, and the changes between stay within the page of the row.

drop index threads_by_change;
alter table threads drop column rested_at;
alter table threads add column changed_in timestamp not null
    generated always as (date_trunc('minute', updated_at at time zone 'UTC')) stored;
create index threads_by_change on threads (tenant, changed_in);
