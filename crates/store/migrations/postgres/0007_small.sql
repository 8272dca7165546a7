-- What is around the messages takes less. An entry whose parent is the one before it, as nearly all are, leaves it out.
-- Pairs of metadata have one index, for a thread's own row knows its pairs. Keys that only grow fill their pages.

alter table entries alter column parent drop not null;

alter table thread_pairs drop constraint thread_pairs_pkey;
drop index thread_pairs_by_pair;
alter table thread_pairs add constraint thread_pairs_pkey primary key (tenant, pair, thread);

alter index entries_pkey set (fillfactor = 100);
alter index runs_pkey set (fillfactor = 100);
alter index runs_by_thread set (fillfactor = 100);

-- One row needs no index, and a short name no place beside the table.
alter table doran_meta drop constraint doran_meta_pkey, alter column name type varchar(60);
