-- Runs with what is in them, one page of them. Figures are of whole runs; the filters choose which runs.
-- Inputs: `run_repeats` (run_id, repeats, nudged, blocked, after_block) and `run_incidents` (run_id, incidents).
WITH wanted AS (
    SELECT run_id FROM tool_call_rows AS c WHERE TRUE /* calls */
    UNION
    SELECT run_id FROM llm_request_rows AS q WHERE TRUE /* requests */
),
called AS (
    SELECT
        run_id, run_source, parent_run_id, session_id, service_name, agent_name, trace_id, dialect, start_ns,
        coalesce(end_ns, start_ns) AS end_ns, seq, outcome, recorded_verdict
    FROM tool_call_rows
    WHERE run_id IN (SELECT run_id FROM wanted) /* all */
),
calls AS (
    SELECT
        run_id, min(run_source) AS run_source, min(parent_run_id) AS parent_run_id, min(session_id) AS session_id,
        min(service_name) AS service_name, min(agent_name) AS agent_name, max(agent_name) AS other_agent,
        min(trace_id) AS trace_id, min(dialect) AS dialect, min(start_ns) AS first_ns, max(end_ns) AS last_ns,
        count(seq) AS calls, count(*) - count(seq) AS calls_not_ended,
        count(CASE WHEN outcome IN ('schema_error', 'general_tool_error') THEN 1 END) AS failed_calls,
        count(recorded_verdict) > 0 AS guarded,
        -- No call that was not blocked began behind the last block.
        coalesce(
            max(CASE WHEN recorded_verdict = 'block' THEN end_ns END)
                >= max(CASE WHEN recorded_verdict IS DISTINCT FROM 'block' THEN start_ns END),
            bool_and(recorded_verdict IS NOT DISTINCT FROM 'block')
        ) AS stopped
    FROM called
    GROUP BY run_id
),
requests AS (
    SELECT
        run_id, min(run_source) AS run_source, min(session_id) AS session_id, min(service_name) AS service_name,
        min(agent_name) AS agent_name, max(agent_name) AS other_agent, min(trace_id) AS trace_id,
        min(dialect) AS dialect, min(start_ns) AS first_ns, max(coalesce(end_ns, start_ns)) AS last_ns,
        count(*) AS requests, count(CASE WHEN status = 'error' THEN 1 END) AS failed_requests,
        min(model) AS model, max(model) AS other_model,
        CAST(CASE WHEN sum(input_tokens) < 9e18 THEN sum(input_tokens) END AS BIGINT) AS input_tokens,
        CAST(CASE WHEN sum(output_tokens) < 9e18 THEN sum(output_tokens) END AS BIGINT) AS output_tokens,
        sum(CASE WHEN abs(cost) < 1e15 THEN cost END) AS cost
    FROM llm_request_rows
    WHERE run_id IN (SELECT run_id FROM wanted) /* all */
    GROUP BY run_id
),
listed AS (
    SELECT
        coalesce(c.run_id, q.run_id) AS run_id,
        coalesce(c.run_source, q.run_source) AS run_source,
        c.parent_run_id,
        coalesce(c.session_id, q.session_id) AS session_id,
        coalesce(c.service_name, q.service_name) AS service_name,
        coalesce(c.agent_name, q.agent_name) AS agent_name,
        coalesce(greatest(c.other_agent, q.other_agent) <> least(c.agent_name, q.agent_name), FALSE) AS several_agents,
        q.model,
        coalesce(q.model <> q.other_model, FALSE) AS several_models,
        coalesce(c.trace_id, q.trace_id) AS trace_id,
        coalesce(c.dialect, q.dialect) AS dialect,
        coalesce(least(c.first_ns, q.first_ns), c.first_ns, q.first_ns) AS first_ns,
        coalesce(greatest(c.last_ns, q.last_ns), c.last_ns, q.last_ns) AS last_ns,
        coalesce(c.calls, 0) AS calls,
        coalesce(c.calls_not_ended, 0) AS calls_not_ended,
        coalesce(c.failed_calls, 0) AS failed_calls,
        coalesce(c.guarded, FALSE) AS guarded,
        coalesce(c.stopped, FALSE) AS stopped,
        coalesce(q.requests, 0) AS requests,
        coalesce(q.failed_requests, 0) AS failed_requests,
        q.input_tokens,
        q.output_tokens,
        q.cost
    FROM calls AS c
    FULL JOIN requests AS q ON q.run_id = c.run_id
)
SELECT
    l.*,
    coalesce(r.repeats, 0) AS repeats,
    coalesce(r.nudged, 0) AS nudged,
    coalesce(r.blocked, 0) AS blocked,
    coalesce(r.after_block, 0) AS after_block,
    coalesce(i.incidents, 0) AS incidents,
    count(*) OVER () AS total,
    CAST(sum(l.calls) OVER () AS BIGINT) AS total_calls,
    CAST(sum(l.requests) OVER () AS BIGINT) AS total_requests,
    count(CASE WHEN r.repeats > 0 THEN 1 END) OVER () AS total_repeating,
    count(CASE WHEN i.incidents > 0 THEN 1 END) OVER () AS total_with_incidents
FROM listed AS l
LEFT JOIN run_repeats AS r ON r.run_id = l.run_id
LEFT JOIN run_incidents AS i ON i.run_id = l.run_id
ORDER BY l.last_ns /* by */ DESC NULLS LAST, l.first_ns DESC, l.run_id
LIMIT $limit OFFSET $offset
