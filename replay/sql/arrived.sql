-- The calls of the runs in `wanted_runs`, as far as sql/facts.sql reads them.
SELECT
    trace_id, session_id, run_id, seq, turn, tool_name, agent_name, service_name, dialect, outcome, error_kind,
    recorded_verdict, content_state, fingerprint, scope_key, result_hash, start_ns, end_ns
FROM tool_call_rows
WHERE run_id IN (SELECT run_id FROM wanted_runs) AND start_ns BETWEEN $since AND $until
