-- What is around the messages takes less. An entry whose parent is the one before it, as nearly all are, leaves it out.
-- Pairs of metadata have one index, for a thread's own row knows its pairs. The runs of a thread are found by its number.
-- Keys that only grow fill their pages.

alter table entries alter column parent drop not null;

alter table thread_pairs drop constraint thread_pairs_pkey;
drop index thread_pairs_by_pair;
alter table thread_pairs add constraint thread_pairs_pkey primary key (tenant, pair, thread);

alter index entries_pkey set (fillfactor = 100);
alter index runs_pkey set (fillfactor = 100);
drop index runs_by_thread;
create index runs_by_thread on runs (number, run) with (fillfactor = 100);

-- One row needs no index, and a short name no place beside the table.
alter table doran_meta drop constraint doran_meta_pkey, alter column name type varchar(60);

-- A start that had waited for the end of the run before it may have been written as if there were no snapshot before it,
-- and the entries after it with it. Each is read from where its parent is, or from its parent if that has a snapshot.

do $$
begin
    loop
        update entries e
        set base = case when s.seq is null then p.base else p.seq end
        from entries p left join snapshots s on s.number = p.number and s.seq = p.seq
        where p.number = e.number and p.seq = coalesce(e.parent, e.seq - 1) and e.base = 0
            and (s.seq is not null or p.base <> 0);
        exit when not found;
    end loop;
end $$;
