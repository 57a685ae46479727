-- For each row of `first_requests` (number, trace_id, span_id, session_id, run_id): the last three requests before it
-- in its session (its run, where no session is known) of its service, and the last two of its own agent; newest first.
-- Ranked by numbers alone: the lists of messages are fetched for the few that are left.
WITH scoped AS (
    SELECT
        trace_id, span_id, start_ns, service_name, agent_name, coalesce(session_id, run_id) AS scope,
        row_number() OVER (ORDER BY start_ns, trace_id, span_id) AS n
    FROM llm_request_rows
    WHERE coalesce(session_id, run_id) IN (SELECT coalesce(session_id, run_id) FROM first_requests)
),
lagged AS (
    SELECT
        trace_id, span_id,
        lag(n, 1) OVER same_scope AS before_1,
        lag(n, 2) OVER same_scope AS before_2,
        lag(n, 3) OVER same_scope AS before_3,
        lag(n, 1) OVER same_agent AS own_1,
        lag(n, 2) OVER same_agent AS own_2
    FROM scoped
    WINDOW
        same_scope AS (PARTITION BY scope, service_name ORDER BY n),
        same_agent AS (PARTITION BY scope, service_name, agent_name ORDER BY n)
),
firsts AS (
    SELECT f.number, l.before_1, l.before_2, l.before_3, l.own_1, l.own_2
    FROM first_requests AS f
    JOIN lagged AS l ON l.trace_id = f.trace_id AND l.span_id = f.span_id
),
wanted AS (
    SELECT number, before_1 AS n FROM firsts
    UNION
    SELECT number, before_2 AS n FROM firsts
    UNION
    SELECT number, before_3 AS n FROM firsts
    UNION
    SELECT number, own_1 AS n FROM firsts
    UNION
    SELECT number, own_2 AS n FROM firsts
)
SELECT
    w.number, q.trace_id, q.span_id, q.run_id, q.agent_name, q.provider, q.model, q.status, q.http_status,
    q.error_type, q.error_class, q.start_ns, q.end_ns, q.input_tokens, q.input_parts, q.output_parts
FROM wanted AS w
JOIN scoped AS s ON s.n = w.n
JOIN llm_request_rows AS q ON q.trace_id = s.trace_id AND q.span_id = s.span_id AND q.start_ns = s.start_ns
ORDER BY w.number, w.n DESC
