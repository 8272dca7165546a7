-- Idempotency keys of runs stay when their thread is deleted. Nobody looks them up by thread any more.
drop index idempotency_by_thread;
