-- Format 10: long logs are removed and copied in batches. Threads with work or garbage are found without a look at others.

-- Numbers of logs that belong to no thread: the thread was removed, or a copy is not complete yet. What lies under them is
-- deleted, unless a copy goes on until that time at least.
create table unowned_logs (
    number        int8 primary key,
    copying_until timestamptz
);

-- The queued run that goes next, by its `num`, while the thread is free. Whoever looks for work does not walk over the queues
-- of threads that are busy or paused.
alter table threads add column ready int8;
update threads t set ready = (
    select r.num from runs r where r.tenant = t.tenant and r.thread = t.thread and r.status = 1
    order by r.rank, r.num limit 1)
where t.active is null
    and exists (select 1 from runs r where r.tenant = t.tenant and r.thread = t.thread and r.status = 1);
create index threads_ready on threads (ready) where ready is not null;

-- Threads by age, for garbage collection. Like the other index over changes it goes by the minute.
create index threads_by_age on threads (changed_in, tenant, thread);
-- Threads that did not change since then (milliseconds since 1970) have no old entries any more.
insert into doran_meta (name, value) values ('entries_cleared_before', 0);
