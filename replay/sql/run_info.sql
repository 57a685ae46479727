-- One run in short.
SELECT
    (SELECT count(*) FROM tool_call_rows WHERE run_id = $run_id AND seq IS NOT NULL) AS calls,
    (SELECT count(*) FROM llm_request_rows WHERE run_id = $run_id) AS requests,
    (SELECT count(*) FROM llm_request_rows WHERE run_id = $run_id AND status = 'error') AS failed_requests,
    min(start_ns) AS first_ns,
    max(coalesce(end_ns, start_ns)) AS last_ns,
    min(parent_run_id) AS parent_run_id,
    min(run_source) AS run_source,
    min(session_id) AS session_id,
    min(service_name) AS service_name,
    coalesce(array_agg(DISTINCT trace_id ORDER BY trace_id), []) AS trace_ids,
    coalesce(array_agg(DISTINCT agent_name ORDER BY agent_name) FILTER (WHERE agent_name IS NOT NULL), []) AS agents,
    coalesce(array_agg(DISTINCT model ORDER BY model) FILTER (WHERE model IS NOT NULL), []) AS models,
    coalesce(array_agg(DISTINCT dialect ORDER BY dialect), []) AS dialects,
    CAST(CASE WHEN sum(input_tokens) < 9e18 THEN sum(input_tokens) END AS BIGINT) AS input_tokens,
    CAST(CASE WHEN sum(output_tokens) < 9e18 THEN sum(output_tokens) END AS BIGINT) AS output_tokens,
    CAST(sum(CAST(CASE WHEN abs(cost) < 1e15 THEN cost END AS DECIMAL(38, 15))) AS DOUBLE) AS cost,
    count(recorded_verdict) > 0 AS guarded
FROM (
    SELECT
        run_id, parent_run_id, run_source, session_id, service_name, agent_name, trace_id, dialect, start_ns, end_ns,
        recorded_verdict, NULL AS model, NULL AS input_tokens, NULL AS output_tokens, NULL AS cost
    FROM tool_call_rows
    WHERE run_id = $run_id
    UNION ALL
    SELECT
        run_id, NULL, run_source, session_id, service_name, agent_name, trace_id, dialect, start_ns, end_ns,
        NULL, model, input_tokens, output_tokens, cost
    FROM llm_request_rows
    WHERE run_id = $run_id
) AS parts
