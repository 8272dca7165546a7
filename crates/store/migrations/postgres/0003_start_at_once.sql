-- A run that need not wait is written once, as running, with its input in its first entry alone. Until now its row was
-- written as queued, with the input in it, and changed at once: the row left behind was as large as the input.

-- Outcomes: 1 started, 2 queued, 3 repeated. `p_if_busy`: 0 reject, 1 enqueue, 2 interrupt, 3 rollback.
create or replace function submit_run(
    p_tenant text, p_thread text, p_run uuid, p_graph bytea, p_fingerprint bytea,
    p_kind int2, p_body bytea, p_parent int8, p_if_busy int2, p_key bytea, p_hash bytea,
    p_metadata bytea, p_options bytea, p_stop_body bytea, p_worker bytea, p_lease int8,
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
begin
    if p_key is not null then
        -- Waits for another submit under the same key, so that what it did is seen below.
        insert into idempotency (tenant, key, hash, thread, run, created_at)
        values (p_tenant, p_key, p_hash, p_thread, p_run, v_now)
        on conflict do nothing;
        if not found then
            select * into v_seen from idempotency where tenant = p_tenant and key = p_key;
            if found and v_seen.hash <> p_hash then
                raise exception 'idempotency key reused' using errcode = 'DR004';
            end if;
            select * into o_run from runs where tenant = p_tenant and run = v_seen.run;
            if not found then
                raise exception 'the run of this idempotency key is being removed' using errcode = '40001';
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
    if p_parent > 0 and not exists (
        select 1 from entries where tenant = p_tenant and thread = p_thread and seq = p_parent)
    then
        raise exception '%', p_parent using errcode = 'DR007';
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

    -- Nobody overtakes those that wait on a thread that just became free.
    if p_worker is null or v_thread.active is not null or exists (
        select 1 from runs r
        where r.tenant = p_tenant and r.thread = p_thread and r.status = 1 and r.rank <= v_rank)
    then
        insert into runs (tenant, run, thread, graph, fingerprint, status, created_at, metadata, options, rank,
            first_kind, first_body, first_parent)
        values (p_tenant, p_run, p_thread, p_graph, p_fingerprint, 1, v_now, p_metadata, p_options,
            v_rank, p_kind, p_body, v_parent)
        returning * into o_run;
        update threads set updated_at = v_now where tenant = p_tenant and thread = p_thread;
        o_outcome := 2;
        o_head := v_thread.head;
        return;
    end if;

    v_parent := coalesce(v_parent, v_thread.head);
    o_head := v_thread.head + 1;
    o_outcome := 1;
    insert into entries (tenant, thread, seq, parent, base, run, at, kind, body)
    values (p_tenant, p_thread, o_head, v_parent, base_after(p_tenant, p_thread, v_parent), p_run, v_now, p_kind,
        p_body);
    update threads set head = o_head, active = p_run, updated_at = v_now
    where tenant = p_tenant and thread = p_thread;
    insert into runs (tenant, run, thread, graph, fingerprint, status, epoch, owner, lease_until, created_at,
        started_at, metadata, options, rank, first_seq, parent_seq)
    values (p_tenant, p_run, p_thread, p_graph, p_fingerprint, 2, 1, p_worker,
        v_now + p_lease * interval '1 millisecond', v_now, v_now, p_metadata, p_options, v_rank, o_head, v_parent)
    returning * into o_run;
end $$;
