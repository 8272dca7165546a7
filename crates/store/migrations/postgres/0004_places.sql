-- A thread has a number, and its entries carry that instead of its name and its tenant's. A row of them is small for
-- those that hold a step alone, so what is around the body counts: columns lie in the order that needs no padding, and
-- the numbers of entries take four bytes.

alter table threads add column number int8 not null generated always as identity;

alter table runs add column number int8;
update runs r set number = t.number from threads t where t.tenant = r.tenant and t.thread = r.thread;
alter table runs alter column number set not null;
-- Room kept free in a page is not found again by the next run, and a change of the status needs an entry in each index
-- anyway. A page without it is tidied when it is full, and filled again.
alter table runs reset (fillfactor);

create table placed (
    at     timestamptz not null,
    number int8 not null,
    seq    int4 not null,
    parent int4 not null,
    base   int4 not null,
    kind   int2 not null,
    run    uuid,
    body   bytea not null
);
insert into placed (at, number, seq, parent, base, kind, run, body)
select e.at, t.number, e.seq, e.parent, e.base, e.kind, e.run, e.body
from entries e join threads t on t.tenant = e.tenant and t.thread = e.thread
order by t.number, e.seq;
drop table entries;
alter table placed rename to entries;
alter table entries add constraint entries_pkey primary key (number, seq);

create table kept (
    number int8 not null,
    seq    int4 not null,
    body   bytea not null
);
insert into kept (number, seq, body)
select t.number, s.seq, s.body from snapshots s join threads t on t.tenant = s.tenant and t.thread = s.thread
order by t.number, s.seq;
drop table snapshots;
alter table kept rename to snapshots;
alter table snapshots add constraint snapshots_pkey primary key (number, seq);
