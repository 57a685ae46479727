-- For each row of `first_requests`: the last few requests before it in its session (its run, where no session
-- is known), and the last of its own agent; newest first.
WITH earlier AS (
    SELECT f.number, f.agent_name AS own_agent, q.*
    FROM first_requests AS f
    JOIN llm_request_rows AS q ON q.session_id = f.session_id
    WHERE q.start_ns < f.start_ns
    UNION ALL
    SELECT f.number, f.agent_name AS own_agent, q.*
    FROM first_requests AS f
    JOIN llm_request_rows AS q ON q.run_id = f.run_id
    WHERE f.session_id IS NULL AND q.start_ns < f.start_ns
),
ranked AS (
    SELECT
        number, trace_id, span_id, run_id, agent_name, provider, model, status, http_status, error_type, error_class,
        start_ns, end_ns, input_tokens, input_parts, output_parts,
        row_number() OVER (PARTITION BY number ORDER BY start_ns DESC, trace_id, span_id) AS nearest,
        CASE WHEN agent_name IS NOT DISTINCT FROM own_agent THEN row_number() OVER (
            PARTITION BY number, agent_name IS NOT DISTINCT FROM own_agent ORDER BY start_ns DESC, trace_id, span_id
        ) END AS nearest_own
    FROM earlier
)
SELECT
    number, trace_id, span_id, run_id, agent_name, provider, model, status, http_status, error_type, error_class,
    start_ns, end_ns, input_tokens, input_parts, output_parts
FROM ranked
WHERE nearest <= 3 OR nearest_own <= 2
ORDER BY number, start_ns DESC, trace_id, span_id
