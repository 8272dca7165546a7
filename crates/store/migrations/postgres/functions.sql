-- Every write is one call of one function, and so one round trip and one transaction. A function that has to say no
-- raises one of these, which undoes what it did:
--
--   DR001 fenced   DR002 busy (message: the active run)   DR003 conflict (message: the sentence)
--   DR004 idempotency key reused   DR005 no such thread   DR006 no such run   DR007 no such entry (message: number)
--
-- 40001 asks the caller to try again: a row was removed between two looks at it.
--
-- Statuses: 1 queued, 2 running, 3 paused, 4 finished, 5 failed, 6 cancelled. Kinds of entries: see `EntryKind`.

-- Those of an older format go first: this script holds all there are.
do $$
declare
    v_old regprocedure;
begin
    for v_old in
        select p.oid::regprocedure from pg_proc p
        where p.pronamespace = current_schema()::regnamespace and p.proname in (
            'pair_digest', 'base_after', 'check_rebuildable', 'newest_entry', 'has_queue', 'next_queued', 'write_step',
            'start_run',
            'cancel_paused', 'submit_run', 'claim_runs', 'renew_leases', 'lock_run',
            'cancel_run', 'clear_pairs', 'release_run', 'answer_run', 'retry_run', 'put_thread',
            'append_entry', 'copy_thread', 'delete_thread', 'clear_idle_threads', 'clear_old_entries',
            'batch_start', 'begin_copy', 'copy_batch', 'finish_copy', 'delete_log', 'delete_unowned_logs',
            'put_item', 'edit_paused_run', 'keep_usage', 'remove_thread')
    loop
        execute 'drop function ' || v_old;
    end loop;
end $$;

create function pair_digest(p_key bytea, p_value bytea) returns bytea language sql immutable as $$
    select sha256(int4send(length(p_key)) || p_key || p_value)
$$;

-- The entry whose snapshot a reader of a child of `p_seq` starts from. Not `stable`: a statement that waited for a lock
-- wants what was written meanwhile.
create function base_after(p_number int8, p_seq int8) returns int8 language plpgsql as $$
begin
    if exists (select 1 from snapshots where number = p_number and seq = p_seq) then
        return p_seq;
    end if;
    return coalesce((select base from entries where number = p_number and seq = p_seq), 0);
end $$;

-- Refuses an entry whose state cannot be rebuilt: clearing may have removed entries that an abandoned branch depends on.
-- It removes all before some entry, so where the snapshot of a branch is, its entries are.
create function check_rebuildable(p_number int8, p_seq int8) returns void language plpgsql as $$
declare
    v_base int8 := base_after(p_number, p_seq);
begin
    if v_base > 0 then
        perform 1 from snapshots where number = p_number and seq = v_base;
    else
        perform 1 from (
            with recursive line (parent) as (
                select p_seq
                union all
                select coalesce(e.parent, e.seq - 1)::int8 from line l
                join entries e on e.number = p_number and e.seq = l.parent where l.parent > 0
            ) select 1 from line where parent = 0) as whole;
    end if;
    if not found then
        raise exception '%', p_seq using errcode = 'DR007';
    end if;
end $$;

-- The newest entry of a thread whose run is running. Not `stable`: whoever asks has just locked something, and wants
-- what was written before that.
create function newest_entry(p_number int8) returns int8 language plpgsql as $$
begin
    return coalesce((select max(seq) from entries where number = p_number), 0);
end $$;

-- The queued run that goes next on a thread that the caller has locked, by its `num`. Not `stable`, for the same reason.
create function next_queued(p_tenant text, p_thread text) returns int8 language plpgsql as $$
begin
    return (
        select num from runs where tenant = p_tenant and thread = p_thread and status = 1 order by rank, num limit 1);
end $$;

-- A step without a new status locks the row of its run, adds its entry and changes no row of another table.
create function write_step(
    p_tenant text, p_thread text, p_run uuid, p_epoch int8, p_head int8,
    p_kinds int2[], p_bodies bytea[], p_parents int8[], p_bases int8[], p_snap_seqs int8[], p_snaps bytea[],
    p_clear bool, p_paths bytea[], p_keys bytea[], p_stages int2[], p_contents bytea[],
    p_input int8, p_output int8, p_cost int8, p_steps int8,
    p_status int2, p_error_code bytea, p_error_message bytea,
    out o_head int8, out o_at timestamptz, out o_cancel_asked bool, out o_next_waits bool
) language plpgsql as $$
declare
    v_ends bool := coalesce(p_status >= 4, false);
    v_number int8;
    v_ready int8;
begin
    if p_status is not null then
        perform 1 from threads where tenant = p_tenant and thread = p_thread for no key update;
    end if;
    select cancel_asked, number into o_cancel_asked, v_number from runs
    where tenant = p_tenant and run = p_run and thread = p_thread and epoch = p_epoch and status = 2
        and owner is not null
    for no key update;
    if not found then
        raise exception 'fenced' using errcode = 'DR001';
    end if;
    if p_status = 1 then
        raise exception 'a run that started cannot be queued again' using errcode = 'DR003';
    end if;
    o_at := clock_timestamp();
    o_next_waits := false;

    if cardinality(p_kinds) = 0 then
        -- Records alone are written side by side, so their writer need not know the newest entry. If it knows one that is
        -- not there, entries were lost.
        o_head := newest_entry(v_number);
        if p_head > o_head then
            raise exception 'the newest entry is not %', p_head using errcode = 'DR003';
        end if;
    else
        -- Only now that the run is locked does the newest entry stay the newest.
        o_head := p_head + cardinality(p_kinds);
        insert into entries (number, seq, parent, base, run, at, kind, body)
        select v_number, p_head + e.i, nullif(e.parent, p_head + e.i - 1), e.base, p_run, o_at, e.kind, e.body
        from unnest(p_kinds, p_bodies, p_parents, p_bases) with ordinality as e (kind, body, parent, base, i)
        where p_head = (select coalesce(max(seq), 0) from entries where number = v_number);
        if not found then
            raise exception 'the newest entry is not %', p_head using errcode = 'DR003';
        end if;
        if cardinality(p_snap_seqs) > 0 then
            insert into snapshots (number, seq, body)
            select v_number, s.seq, s.body from unnest(p_snap_seqs, p_snaps) as s (seq, body);
        end if;
    end if;

    if p_status is not null then
        update threads
        set head = o_head, updated_at = o_at, active = case when v_ends then null else active end,
            ready = case when v_ends then next_queued(p_tenant, p_thread) end
        where tenant = p_tenant and thread = p_thread
        returning ready into v_ready;
        update runs set
            -- A run that is to be cancelled does not wait for answers: it is let go, for a worker to end it.
            status = case when p_status = 3 and cancel_asked then 2 else p_status end,
            steps = steps + p_steps,
            input_tokens = input_tokens + least(p_input, 9223372036854775807 - input_tokens),
            output_tokens = output_tokens + least(p_output, 9223372036854775807 - output_tokens),
            cost_micros = cost_micros + least(p_cost, 9223372036854775807 - cost_micros),
            owner = case when p_status = 2 then owner end,
            lease_until = case when p_status = 2 then lease_until end,
            ended_at = case when v_ends then o_at end,
            last_seq = case when v_ends then o_head end,
            error_code = coalesce(p_error_code, error_code),
            error_message = coalesce(p_error_message, error_message)
        where tenant = p_tenant and run = p_run;
    elsif p_steps > 0 or p_input > 0 or p_output > 0 or p_cost > 0 then
        update runs set
            steps = steps + p_steps,
            input_tokens = input_tokens + least(p_input, 9223372036854775807 - input_tokens),
            output_tokens = output_tokens + least(p_output, 9223372036854775807 - output_tokens),
            cost_micros = cost_micros + least(p_cost, 9223372036854775807 - cost_micros)
        where tenant = p_tenant and run = p_run;
    end if;
    -- The records of a failed run stay, for it may be tried again.
    if p_clear or p_status in (4, 6) then
        delete from records where tenant = p_tenant and run = p_run;
    end if;
    if cardinality(p_paths) > 0 and p_status is distinct from 4 and p_status is distinct from 6 then
        insert into records (tenant, run, digest, path, key, stage, body)
        select p_tenant, p_run, pair_digest(n.path, n.key), n.path, n.key, n.stage, n.body
        from unnest(p_paths, p_keys, p_stages, p_contents) as n (path, key, stage, body)
        on conflict (tenant, run, digest) do update set stage = excluded.stage, body = excluded.body;
    end if;
    if v_ends then
        o_next_waits := v_ready is not null;
    elsif p_status = 3 then
        o_next_waits := o_cancel_asked;
    end if;
end $$;

-- Makes a queued run the active one of its free thread. The caller holds the thread's lock.
create function start_run(p_run runs, p_head int8, p_worker bytea, p_lease int8) returns runs language plpgsql as $$
declare
    v_now timestamptz := clock_timestamp();
    v_parent int8 := coalesce(p_run.first_parent, p_head);
    v_run runs;
begin
    insert into entries (number, seq, parent, base, run, at, kind, body)
    values (p_run.number, p_head + 1, nullif(v_parent, p_head), base_after(p_run.number, v_parent), p_run.run, v_now,
        p_run.first_kind, p_run.first_body);
    update threads set head = p_head + 1, active = p_run.run, ready = null, updated_at = v_now
    where tenant = p_run.tenant and thread = p_run.thread;
    update runs set
        status = 2, epoch = epoch + 1, owner = p_worker, lease_until = v_now + p_lease * interval '1 millisecond',
        started_at = v_now, first_seq = p_head + 1, parent_seq = v_parent,
        first_kind = null, first_body = null, first_parent = null
    where tenant = p_run.tenant and run = p_run.run
    returning * into v_run;
    return v_run;
end $$;

-- Ends a paused run with an entry of its own. The caller holds the thread's lock.
create function cancel_paused(p_run runs, p_head int8, p_body bytea) returns runs language plpgsql as $$
declare
    v_now timestamptz := clock_timestamp();
    v_run runs;
begin
    insert into entries (number, seq, base, run, at, kind, body)
    values (p_run.number, p_head + 1, base_after(p_run.number, p_head), p_run.run, v_now, 9, p_body);
    update threads set head = p_head + 1, active = null, ready = next_queued(p_run.tenant, p_run.thread),
        updated_at = v_now
    where tenant = p_run.tenant and thread = p_run.thread;
    delete from records where tenant = p_run.tenant and run = p_run.run;
    update runs set status = 6, ended_at = v_now, last_seq = p_head + 1
    where tenant = p_run.tenant and run = p_run.run
    returning * into v_run;
    return v_run;
end $$;

-- Outcomes: 1 started, 2 queued, 3 repeated. `p_if_busy`: 0 reject, 1 enqueue, 2 interrupt, 3 rollback. The thread gets
-- those of the pairs in `p_names` and `p_values` whose names it has not.
create function submit_run(
    p_tenant text, p_thread text, p_run uuid, p_graph bytea, p_fingerprint bytea,
    p_kind int2, p_body bytea, p_parent int8, p_if_busy int2, p_key bytea, p_hash bytea,
    p_metadata bytea, p_options bytea, p_stop_body bytea, p_worker bytea, p_lease int8,
    p_names bytea[] default '{}', p_values bytea[] default '{}',
    out o_outcome int2, out o_run runs, out o_head int8, out o_stop uuid
) language plpgsql as $$
declare
    v_now timestamptz := clock_timestamp();
    v_seen idempotency;
    v_thread threads;
    v_active runs;
    v_parent int8 := p_parent;
    v_rank int2 := case when p_if_busy >= 2 then 0 else 1 end;
    v_busy uuid;
    v_kept threads;
begin
    if p_key is not null then
        -- Waits for another submit under the same key, so that what it did is seen below.
        insert into idempotency (tenant, key, hash, thread, run, created_at)
        values (p_tenant, p_key, p_hash, p_thread, p_run, v_now)
        on conflict do nothing;
        if not found then
            select * into v_seen from idempotency where tenant = p_tenant and key = p_key;
            if not found then
                raise exception 'the idempotency key is being removed' using errcode = '40001';
            end if;
            if v_seen.hash <> p_hash then
                raise exception 'idempotency key reused' using errcode = 'DR004';
            end if;
            select * into o_run from runs where tenant = p_tenant and run = v_seen.run;
            if not found then
                raise exception 'the run of this idempotency key was deleted with its thread' using errcode = 'DR003';
            end if;
            o_outcome := 3;
            return;
        end if;
    end if;

    insert into threads (tenant, thread, head, created_at, updated_at)
    values (p_tenant, p_thread, 0, v_now, v_now)
    on conflict do nothing;
    select * into v_thread from threads where tenant = p_tenant and thread = p_thread for no key update;
    if not found then
        raise exception 'the thread is being removed' using errcode = '40001';
    end if;
    o_head := v_thread.head;
    if p_parent > 0 then
        perform check_rebuildable(v_thread.number, p_parent);
    end if;

    v_busy := coalesce(v_thread.active, (
        select run from runs where tenant = p_tenant and thread = p_thread and status = 1
        order by rank, num limit 1));
    if v_busy is not null and p_if_busy = 0 then
        raise exception '%', v_busy using errcode = 'DR002';
    end if;
    if v_thread.active is not null and p_if_busy >= 2 then
        select * into v_active from runs where tenant = p_tenant and run = v_thread.active;
        if p_if_busy = 3 then
            v_parent := v_active.parent_seq;
        end if;
        if v_active.status = 3 then
            perform cancel_paused(v_active, v_thread.head, p_stop_body);
            v_thread.head := v_thread.head + 1;
            v_thread.active := null;
        else
            update runs set cancel_asked = true where tenant = p_tenant and run = v_active.run;
            o_stop := v_active.run;
        end if;
    end if;

    if not v_thread.meta_keys @> p_names then
        with kept as (
            select m.k, m.v from unnest(v_thread.meta_keys, v_thread.meta_vals) as m (k, v)
            union all
            select m.k, m.v from unnest(p_names, p_values) as m (k, v) where m.k <> all (v_thread.meta_keys)
        )
        update threads set
            meta_keys = (select array_agg(k order by k) from kept), meta_vals = (select array_agg(v order by k) from kept)
        where tenant = p_tenant and thread = p_thread
        returning * into v_kept;
        insert into thread_pairs (tenant, pair, thread)
        select p_tenant, pair_digest(m.k, m.v), p_thread
        from unnest(v_kept.meta_keys, v_kept.meta_vals) as m (k, v) where m.k <> all (v_thread.meta_keys);
    end if;

    -- Nobody overtakes those that wait on a thread that just became free.
    if p_worker is null or v_thread.active is not null or exists (
        select 1 from runs r
        where r.tenant = p_tenant and r.thread = p_thread and r.status = 1 and r.rank <= v_rank)
    then
        insert into runs (tenant, run, thread, number, graph, fingerprint, status, created_at, metadata, options,
            rank, first_kind, first_body, first_parent)
        values (p_tenant, p_run, p_thread, v_thread.number, p_graph, p_fingerprint, 1, v_now, p_metadata, p_options,
            v_rank, p_kind, p_body, v_parent)
        returning * into o_run;
        update threads set updated_at = v_now,
            ready = case when active is null then next_queued(p_tenant, p_thread) end
        where tenant = p_tenant and thread = p_thread;
        o_outcome := 2;
        o_head := v_thread.head;
        return;
    end if;

    v_parent := coalesce(v_parent, v_thread.head);
    o_head := v_thread.head + 1;
    o_outcome := 1;
    insert into entries (number, seq, parent, base, run, at, kind, body)
    values (v_thread.number, o_head, nullif(v_parent, v_thread.head), base_after(v_thread.number, v_parent), p_run,
        v_now, p_kind, p_body);
    update threads set head = o_head, active = p_run, ready = null, updated_at = v_now
    where tenant = p_tenant and thread = p_thread;
    insert into runs (tenant, run, thread, number, graph, fingerprint, status, epoch, owner, lease_until, created_at,
        started_at, metadata, options, rank, first_seq, parent_seq)
    values (p_tenant, p_run, p_thread, v_thread.number, p_graph, p_fingerprint, 2, 1, p_worker,
        v_now + p_lease * interval '1 millisecond', v_now, v_now, p_metadata, p_options, v_rank, o_head, v_parent)
    returning * into o_run;
end $$;

-- Threads that are locked by somebody are passed over: their turn comes with the next look. A thread that is asked for
-- by name is waited for. Runs of graphs other than `p_graphs` (null: all) are claimed only to be cancelled.
create function claim_runs(
    p_worker bytea, p_lease int8, p_tenant text, p_thread text, p_limit int4, p_graphs bytea[]
)
returns table (o_run runs, o_head int8, o_paths bytea[], o_keys bytea[], o_stages int2[], o_bodies bytea[])
language plpgsql as $$
declare
    v_found record;
    v_thread threads;
    v_count int4 := 0;
begin
    for v_found in
        (select p_tenant as tenant, p_thread as thread where p_tenant is not null)
        union all
        (select r.tenant, r.thread from runs r
        where p_tenant is null and r.status = 2 and (r.owner is null or r.lease_until <= clock_timestamp())
            and (p_graphs is null or r.graph = any (p_graphs) or r.cancel_asked)
        order by r.num limit p_limit + 64)
        union all
        (select t.tenant, t.thread from threads t join runs r on r.num = t.ready and r.status = 1
        where p_tenant is null and t.ready is not null
            and (p_graphs is null or r.graph = any (p_graphs) or r.cancel_asked)
        order by t.ready limit p_limit + 64)
    loop
        exit when v_count >= p_limit;
        if p_tenant is null then
            select * into v_thread from threads
            where tenant = v_found.tenant and thread = v_found.thread
            for no key update skip locked;
        else
            select * into v_thread from threads
            where tenant = v_found.tenant and thread = v_found.thread
            for no key update;
        end if;
        continue when not found;
        -- Only now that the thread is locked does what is read here stay true.
        if v_thread.active is null then
            select * into o_run from runs r
            where r.tenant = v_thread.tenant and r.thread = v_thread.thread and r.status = 1
            order by r.rank, r.num limit 1;
            continue when not found;
            continue when not coalesce((o_run).graph = any (p_graphs), true) and not (o_run).cancel_asked;
            o_run := start_run(o_run, v_thread.head, p_worker, p_lease);
            o_head := o_run.first_seq;
        else
            update runs r set epoch = r.epoch + 1, owner = p_worker,
                lease_until = clock_timestamp() + p_lease * interval '1 millisecond'
            where r.tenant = v_thread.tenant and r.run = v_thread.active and r.status = 2
                and (r.owner is null or r.lease_until <= clock_timestamp())
                and (p_graphs is null or r.graph = any (p_graphs) or r.cancel_asked)
            returning * into o_run;
            continue when not found;
            o_head := newest_entry(v_thread.number);
        end if;
        select array_agg(n.path order by n.path, n.key), array_agg(n.key order by n.path, n.key),
            array_agg(n.stage order by n.path, n.key), array_agg(n.body order by n.path, n.key)
        into o_paths, o_keys, o_stages, o_bodies
        from records n where n.tenant = v_thread.tenant and n.run = (o_run).run;
        v_count := v_count + 1;
        return next;
    end loop;
end $$;

-- Answers: 1 held, 2 cancel asked, 3 lost.
create function renew_leases(
    p_lease int8, p_tenants text[], p_threads text[], p_runs uuid[], p_epochs int8[]
) returns int2[] language plpgsql as $$
declare
    v_answers int2[];
begin
    perform 1 from threads t
    where (t.tenant, t.thread) in (select f.tenant, f.thread from unnest(p_tenants, p_threads) as f (tenant, thread))
    order by t.tenant, t.thread
    for no key update;
    with held as (
        update runs r set lease_until = clock_timestamp() + p_lease * interval '1 millisecond'
        from unnest(p_tenants, p_threads, p_runs, p_epochs) as f (tenant, thread, run, epoch)
        where r.tenant = f.tenant and r.run = f.run and r.thread = f.thread and r.epoch = f.epoch
            and r.status = 2 and r.owner is not null
        returning r.tenant, r.run, r.epoch, r.cancel_asked
    )
    select array_agg(
        case when h.run is null then 3 when h.cancel_asked then 2 else 1 end::int2 order by f.i)
    into v_answers
    from unnest(p_tenants, p_runs, p_epochs) with ordinality as f (tenant, run, epoch, i)
    left join held h on h.tenant = f.tenant and h.run = f.run and h.epoch = f.epoch;
    return v_answers;
end $$;

create function lock_run(p_tenant text, p_run uuid, out o_run runs, out o_thread threads) language plpgsql as $$
begin
    select * into o_run from runs where tenant = p_tenant and run = p_run;
    if found then
        select * into o_thread from threads where tenant = p_tenant and thread = o_run.thread for no key update;
        -- What was read before the lock was taken may be old.
        select * into o_run from runs where tenant = p_tenant and run = p_run;
    end if;
    if not found then
        raise exception 'no such run' using errcode = 'DR006';
    end if;
end $$;

create function cancel_run(p_tenant text, p_run uuid, p_body bytea) returns runs language plpgsql as $$
declare
    v_found record := lock_run(p_tenant, p_run);
    v_run runs := v_found.o_run;
    v_thread threads := v_found.o_thread;
begin
    case v_run.status
        when 1 then
            update runs set status = 6, ended_at = clock_timestamp(),
                first_kind = null, first_body = null, first_parent = null
            where tenant = p_tenant and run = p_run returning * into v_run;
            update threads set updated_at = clock_timestamp(),
                ready = case when active is null then next_queued(p_tenant, v_run.thread) end
            where tenant = p_tenant and thread = v_run.thread;
        when 2 then
            update runs set cancel_asked = true
            where tenant = p_tenant and run = p_run returning * into v_run;
        when 3 then
            v_run := cancel_paused(v_run, v_thread.head, p_body);
        else
            null;
    end case;
    return v_run;
end $$;

-- Lets a run go on with the next claim, telling so in the log. The caller holds the thread's lock.
create function release_run(p_run runs, p_head int8, p_kind int2, p_body bytea, p_fingerprint bytea) returns runs
language plpgsql as $$
declare
    v_now timestamptz := clock_timestamp();
    v_run runs;
begin
    insert into entries (number, seq, base, run, at, kind, body)
    values (p_run.number, p_head + 1, base_after(p_run.number, p_head), p_run.run, v_now, p_kind, p_body);
    update threads set head = p_head + 1, active = p_run.run, ready = null, updated_at = v_now
    where tenant = p_run.tenant and thread = p_run.thread;
    -- A retry (kind 6) takes a wish to cancel back, an answer does not.
    update runs set status = 2, owner = null, lease_until = null, cancel_asked = cancel_asked and p_kind <> 6,
        ended_at = null,
        last_seq = null, error_code = null, error_message = null, fingerprint = p_fingerprint
    where tenant = p_run.tenant and run = p_run.run
    returning * into v_run;
    return v_run;
end $$;

create function answer_run(p_tenant text, p_run uuid, p_paths bytea[], p_keys bytea[], p_answers bytea[], p_body bytea)
returns runs language plpgsql as $$
declare
    v_found record := lock_run(p_tenant, p_run);
    v_run runs := v_found.o_run;
    v_thread threads := v_found.o_thread;
    v_taken int8;
begin
    if v_run.status <> 3 then
        raise exception 'the run does not wait for an answer' using errcode = 'DR003';
    end if;
    update records n set stage = 3, body = a.body
    from unnest(p_paths, p_keys, p_answers) as a (path, key, body)
    where n.tenant = p_tenant and n.run = p_run and n.digest = pair_digest(a.path, a.key) and n.stage = 1;
    get diagnostics v_taken = row_count;
    if v_taken <> cardinality(p_paths) then
        raise exception 'a question was answered before or never asked' using errcode = 'DR003';
    end if;
    return release_run(v_run, v_thread.head, 5::int2, p_body, v_run.fingerprint);
end $$;

create function edit_paused_run(p_tenant text, p_run uuid, p_head int8, p_body bytea) returns runs language plpgsql as $$
declare
    v_found record := lock_run(p_tenant, p_run);
    v_run runs := v_found.o_run;
    v_thread threads := v_found.o_thread;
    v_now timestamptz := clock_timestamp();
begin
    if v_run.status <> 3 then
        raise exception 'the run is not paused' using errcode = 'DR003';
    end if;
    if v_thread.head <> p_head then
        raise exception 'the newest entry is %, not %', v_thread.head, p_head using errcode = 'DR003';
    end if;
    insert into entries (number, seq, base, run, at, kind, body)
    values (v_run.number, p_head + 1, base_after(v_run.number, p_head), p_run, v_now, 4, p_body);
    update threads set head = p_head + 1, updated_at = v_now where tenant = p_tenant and thread = v_run.thread;
    return v_run;
end $$;

create function retry_run(p_tenant text, p_run uuid, p_body bytea, p_fingerprint bytea)
returns runs language plpgsql as $$
declare
    v_found record := lock_run(p_tenant, p_run);
    v_run runs := v_found.o_run;
    v_thread threads := v_found.o_thread;
begin
    if v_run.status <> 5 then
        raise exception 'the run has not failed' using errcode = 'DR003';
    end if;
    if v_thread.active is not null or v_thread.head is distinct from v_run.last_seq then
        raise exception 'the thread went on after the run' using errcode = 'DR003';
    end if;
    return release_run(v_run, v_thread.head, 6::int2, p_body, p_fingerprint);
end $$;

-- The caller holds the thread's lock.
create function clear_pairs(p_thread threads) returns void language sql as $$
    delete from thread_pairs p
    using unnest(p_thread.meta_keys, p_thread.meta_vals) as m (k, v)
    where p.tenant = p_thread.tenant and p.pair = pair_digest(m.k, m.v) and p.thread = p_thread.thread
$$;

-- `p_values` holds a null for each key to remove.
create function put_thread(p_tenant text, p_thread text, p_keys bytea[], p_values bytea[])
returns threads language plpgsql as $$
declare
    v_now timestamptz := clock_timestamp();
    v_thread threads;
begin
    insert into threads (tenant, thread, head, created_at, updated_at)
    values (p_tenant, p_thread, 0, v_now, v_now)
    on conflict do nothing;
    select * into v_thread from threads where tenant = p_tenant and thread = p_thread for no key update;
    if not found then
        raise exception 'the thread is being removed' using errcode = '40001';
    end if;
    perform clear_pairs(v_thread);
    with kept as (
        select m.k, m.v from unnest(v_thread.meta_keys, v_thread.meta_vals) as m (k, v) where m.k <> all (p_keys)
        union all
        select m.k, m.v from unnest(p_keys, p_values) as m (k, v) where m.v is not null
    )
    update threads set updated_at = clock_timestamp(),
        meta_keys = coalesce((select array_agg(k order by k) from kept), '{}'),
        meta_vals = coalesce((select array_agg(v order by k) from kept), '{}')
    where tenant = p_tenant and thread = p_thread
    returning * into v_thread;
    insert into thread_pairs (tenant, pair, thread)
    select p_tenant, pair_digest(m.k, m.v), p_thread from unnest(v_thread.meta_keys, v_thread.meta_vals) as m (k, v);
    v_thread.head := newest_entry(v_thread.number);
    return v_thread;
end $$;

create function append_entry(
    p_tenant text, p_thread text, p_expect int8, p_kind int2, p_body bytea, p_parent int8, p_base int8,
    p_snapshot bytea
) returns int8 language plpgsql as $$
declare
    v_now timestamptz := clock_timestamp();
    v_thread threads;
begin
    select * into v_thread from threads where tenant = p_tenant and thread = p_thread for no key update;
    if not found then
        raise exception 'no such thread' using errcode = 'DR005';
    end if;
    if v_thread.active is not null then
        raise exception '%', v_thread.active using errcode = 'DR002';
    end if;
    if v_thread.head <> p_expect then
        raise exception 'the newest entry is %, not %', v_thread.head, p_expect using errcode = 'DR003';
    end if;
    if p_parent > 0 then
        perform check_rebuildable(v_thread.number, p_parent);
    end if;
    insert into entries (number, seq, parent, base, run, at, kind, body)
    values (v_thread.number, p_expect + 1, nullif(p_parent, p_expect), p_base, null, v_now, p_kind, p_body);
    if p_snapshot is not null then
        insert into snapshots (number, seq, body) values (v_thread.number, p_expect + 1, p_snapshot);
    end if;
    update threads set head = p_expect + 1, updated_at = v_now where tenant = p_tenant and thread = p_thread;
    return p_expect + 1;
end $$;

-- The first entry of a batch that ends before `p_before` and is the newest part of what lies there; null if nothing does.
create function batch_start(p_number int8, p_before int8) returns int8 language plpgsql as $$
begin
    return (
        select min(b.seq) from (
            select e.seq, row_number() over w as place,
                sum(length(e.body) + coalesce(length(s.body), 0)) over w as bytes
            from (
                select l.number, l.seq, l.body from entries l
                where l.number = p_number and l.seq < p_before
                order by l.seq desc limit 5000
            ) e
            left join snapshots s on s.number = e.number and s.seq = e.seq
            window w as (order by e.seq desc)
        ) b
        where b.place = 1 or b.bytes <= 4194304);
end $$;

-- A thread is copied under a number of its own, which no thread has until the copy is complete. Entries are copied from the
-- newest to the oldest: if old ones are cleared meanwhile, the copy has no gap.
create function begin_copy(
    p_tenant text, p_from text, p_to text, p_parent int8,
    out o_source int8, out o_number int8, out o_head int8, out o_left int8
) language plpgsql as $$
begin
    select number into o_source from threads where tenant = p_tenant and thread = p_from for key share;
    if not found then
        raise exception 'no such thread' using errcode = 'DR005';
    end if;
    if p_parent > 0 then
        perform check_rebuildable(o_source, p_parent);
    end if;
    if exists (select 1 from threads where tenant = p_tenant and thread = p_to) then
        raise exception 'thread `%` exists already', p_to using errcode = 'DR003';
    end if;
    o_head := newest_entry(o_source);
    o_number := nextval(pg_get_serial_sequence('threads', 'number'));
    insert into unowned_logs (number) values (o_number);
    o_left := copy_batch(p_tenant, p_from, o_source, o_number, o_head + 1);
end $$;

-- Copies the entries of a batch that ends before `p_before`. Those before the entry it returns are left; null if none are.
create function copy_batch(p_tenant text, p_from text, p_source int8, p_number int8, p_before int8)
returns int8 language plpgsql as $$
declare
    v_first int8;
begin
    -- Keeps the source from being removed or cleared meanwhile, but lets its run go on writing.
    perform 1 from threads where tenant = p_tenant and thread = p_from and number = p_source for key share;
    if not found then
        raise exception 'no such thread' using errcode = 'DR005';
    end if;
    update unowned_logs set copying_until = clock_timestamp() + interval '10 minutes' where number = p_number;
    if not found then
        raise exception 'the copy took too long' using errcode = 'DR003';
    end if;
    v_first := batch_start(p_source, p_before);
    insert into entries (number, seq, parent, base, run, at, kind, body)
    select p_number, seq, parent, base, run, at, kind, body from entries
    where number = p_source and seq >= v_first and seq < p_before
    order by seq;
    insert into snapshots (number, seq, body)
    select p_number, seq, body from snapshots where number = p_source and seq >= v_first and seq < p_before;
    return (select v_first where exists (select 1 from entries where number = p_source and seq < v_first));
end $$;

-- Makes the thread of a copy. The entry, if one is given, is where it stands.
create function finish_copy(
    p_tenant text, p_from text, p_to text, p_source int8, p_number int8, p_head int8,
    p_kind int2, p_body bytea, p_parent int8, p_base int8
) returns threads language plpgsql as $$
declare
    v_now timestamptz := clock_timestamp();
    v_from threads;
    v_to threads;
begin
    select * into v_from from threads
    where tenant = p_tenant and thread = p_from and number = p_source for key share;
    if not found then
        raise exception 'no such thread' using errcode = 'DR005';
    end if;
    delete from unowned_logs where number = p_number;
    if not found then
        raise exception 'the copy took too long' using errcode = 'DR003';
    end if;
    insert into threads (number, tenant, thread, head, created_at, updated_at, meta_keys, meta_vals)
    overriding system value
    values (p_number, p_tenant, p_to, p_head, v_now, v_now, v_from.meta_keys, v_from.meta_vals)
    on conflict do nothing
    returning * into v_to;
    if not found then
        raise exception 'thread `%` exists already', p_to using errcode = 'DR003';
    end if;
    insert into thread_pairs (tenant, pair, thread)
    select p_tenant, pair_digest(m.k, m.v), p_to from unnest(v_to.meta_keys, v_to.meta_vals) as m (k, v);
    if p_kind is not null and p_parent is distinct from p_head then
        if p_parent > 0 then
            perform check_rebuildable(p_number, p_parent);
        end if;
        insert into entries (number, seq, parent, base, at, kind, body)
        values (p_number, p_head + 1, p_parent, p_base, v_now, p_kind, p_body);
        update threads set head = p_head + 1 where tenant = p_tenant and thread = p_to returning * into v_to;
    end if;
    return v_to;
end $$;

-- Adds what the runs of these threads used, which are about to be deleted. A transaction calls it once: rows are locked in
-- their order, so that two of them never wait for each other in a circle.
create function keep_usage(p_numbers int8[]) returns void language sql as $$
    insert into deleted_usage as u (tenant, at, graph, runs, input_tokens, output_tokens, cost_micros, is_exact)
    select r.tenant, to_timestamp(floor(extract(epoch from r.created_at) / 900) * 900) as quarter, r.graph, count(*),
        least(sum(r.input_tokens), 9223372036854775807)::int8, least(sum(r.output_tokens), 9223372036854775807)::int8,
        least(sum(r.cost_micros), 9223372036854775807)::int8,
        bool_and(r.status = 4 or (r.input_tokens = 0 and r.output_tokens = 0 and r.cost_micros = 0))
    from runs r where r.number = any (p_numbers)
    group by r.tenant, quarter, r.graph order by r.tenant, quarter, r.graph
    on conflict (tenant, at, graph) do update set
        runs = u.runs + excluded.runs,
        input_tokens = u.input_tokens + least(excluded.input_tokens, 9223372036854775807 - u.input_tokens),
        output_tokens = u.output_tokens + least(excluded.output_tokens, 9223372036854775807 - u.output_tokens),
        cost_micros = u.cost_micros + least(excluded.cost_micros, 9223372036854775807 - u.cost_micros),
        is_exact = u.is_exact and excluded.is_exact
$$;

-- Removes a thread whose usage is kept, and a batch of its log. The rest belongs to no thread then. The caller holds the
-- thread's lock.
create function remove_thread(p_thread threads) returns void language plpgsql as $$
begin
    delete from records n using runs r
    where r.number = p_thread.number and n.tenant = r.tenant and n.run = r.run;
    delete from runs where number = p_thread.number;
    perform clear_pairs(p_thread);
    delete from threads where tenant = p_thread.tenant and thread = p_thread.thread;
    insert into unowned_logs (number) values (p_thread.number);
    perform delete_log(p_thread.number);
end $$;

create function delete_thread(p_tenant text, p_thread text) returns bool language plpgsql as $$
declare
    v_thread threads;
begin
    select * into v_thread from threads where tenant = p_tenant and thread = p_thread for update;
    if not found then
        return false;
    end if;
    -- Waits for steps under way, so that nothing of theirs is left behind.
    perform 1 from runs where number = v_thread.number for update;
    perform keep_usage(array[v_thread.number]);
    perform remove_thread(v_thread);
    return true;
end $$;

-- Deletes a batch of a log that belongs to no thread, and returns how many entries that was.
create function delete_log(p_number int8) returns int8 language plpgsql as $$
declare
    v_first int8 := batch_start(p_number, 2147483648);
    v_rows int8;
begin
    delete from snapshots where number = p_number and seq >= v_first;
    delete from entries where number = p_number and seq >= v_first;
    get diagnostics v_rows = row_count;
    if not exists (select 1 from entries where number = p_number) then
        delete from unowned_logs where number = p_number;
    end if;
    return v_rows;
end $$;

-- Deletes a batch of the logs that belong to no thread. Returns whether it found one.
create function delete_unowned_logs() returns bool language plpgsql as $$
declare
    v_number int8;
    v_rows int8 := 0;
begin
    for v_number in
        select number from unowned_logs where copying_until is null or copying_until < clock_timestamp()
        limit 100 for update skip locked
    loop
        v_rows := v_rows + delete_log(v_number);
        exit when v_rows >= 5000;
    end loop;
    return found;
end $$;

-- Removes up to `p_limit` idle threads.
create function clear_idle_threads(p_idle int8, p_limit int4) returns int8 language plpgsql as $$
declare
    v_thread threads;
    v_idle threads[] := '{}';
    v_numbers int8[] := '{}';
begin
    for v_thread in
        select t.* from threads t
        where t.active is null and t.ready is null
            and t.updated_at < clock_timestamp() - p_idle * interval '1 millisecond'
            and t.changed_in <= (clock_timestamp() - p_idle * interval '1 millisecond') at time zone 'UTC'
        order by t.changed_in
        limit p_limit
        for update of t skip locked
    loop
        -- A run may have been accepted between the look and the lock.
        continue when exists (
            select 1 from runs r
            where r.number = v_thread.number and r.status in (1, 2, 3));
        v_idle := array_append(v_idle, v_thread);
        v_numbers := array_append(v_numbers, v_thread.number);
    end loop;
    perform keep_usage(v_numbers);
    foreach v_thread in array v_idle loop
        perform remove_thread(v_thread);
    end loop;
    return cardinality(v_numbers);
end $$;

-- Clears entries before `p_before` in up to `p_limit` free threads after the given one, in the order in which they changed,
-- and up to 5000 in each. Returns how far it came; nothing if there are no more threads that changed up to `p_until`.
create function clear_old_entries(
    p_before timestamptz, p_until timestamp, p_changed timestamp, p_tenant text, p_thread text, p_limit int4
) returns table (o_changed timestamp, o_tenant text, o_thread text, o_cleared int8) language plpgsql as $$
declare
    v_thread record;
    v_cut int8;
    v_limit int8;
    v_rows int8;
begin
    o_changed := p_changed;
    o_tenant := p_tenant;
    o_thread := p_thread;
    o_cleared := 0;
    for v_thread in
        select t.changed_in, t.tenant, t.thread, t.number, t.head from threads t
        where (t.changed_in, t.tenant, t.thread) > (p_changed, p_tenant, p_thread) and t.changed_in <= p_until
        order by t.changed_in, t.tenant, t.thread limit p_limit
    loop
        perform 1 from threads t
        where t.tenant = v_thread.tenant and t.thread = v_thread.thread and t.number = v_thread.number
            and t.head = v_thread.head and t.created_at < p_before and t.active is null and t.ready is null
        for update skip locked;
        if found then
            v_cut := base_after(v_thread.number, v_thread.head);
            -- What is too young to go keeps the snapshot it is read from, and all that lies after that.
            select least(v_cut, min(least(e.seq, e.base))) into v_cut from entries e
            where e.number = v_thread.number and e.seq < v_cut and e.at >= p_before;
            v_limit := (
                select e.seq from entries e where e.number = v_thread.number and e.seq < v_cut
                order by e.seq offset 5000 limit 1);
            delete from entries e where e.number = v_thread.number and e.seq < least(v_cut, v_limit);
            get diagnostics v_rows = row_count;
            o_cleared := o_cleared + v_rows;
            delete from snapshots s where s.number = v_thread.number and s.seq < least(v_cut, v_limit);
            if v_limit is not null then
                -- More of this thread next time.
                return next;
                return;
            end if;
        end if;
        o_changed := v_thread.changed_in;
        o_tenant := v_thread.tenant;
        o_thread := v_thread.thread;
    end loop;
    if found then
        return next;
    end if;
end $$;

-- Puts an item. Gives no row, and changes nothing, when it would be one too many.
create function put_item(
    p_tenant text, p_namespace text, p_key text, p_value bytea, p_lifetime int8, p_most int8
) returns table (o_created_at timestamptz, o_updated_at timestamptz) language plpgsql as $$
declare
    v_now timestamptz := clock_timestamp();
    v_is_new bool;
begin
    insert into items as i (tenant, namespace, key, created_at, updated_at, expires, value)
    values (p_tenant, p_namespace, p_key, v_now, v_now, v_now + p_lifetime * interval '1 millisecond', p_value)
    on conflict (tenant, namespace, key) do update set value = excluded.value, updated_at = excluded.updated_at,
        created_at = case when i.expires <= v_now then v_now else i.created_at end, expires = excluded.expires
    returning i.created_at, i.updated_at, i.xmax = 0 into o_created_at, o_updated_at, v_is_new;
    if v_is_new then
        insert into item_counts as c (tenant, items) values (p_tenant, 1)
        on conflict (tenant) do update set items = c.items + 1 where c.items < p_most;
        if not found then
            delete from items i where i.tenant = p_tenant and i.namespace = p_namespace and i.key = p_key;
            return;
        end if;
    end if;
    return next;
end $$;
