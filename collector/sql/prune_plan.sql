-- The traces that ended before a time: a temporary table doomed(trace_id, last_ns).
-- Parameter: the time in Unix nanoseconds. Also a temporary table lasting(trace_id): those that must stay.
-- Times are judged by judged_time.sql.

CREATE OR REPLACE TEMP TABLE trace_ends AS
SELECT trace_id, max(last_ns) AS last_ns
FROM (
    SELECT trace_id, max(judged_ns(coalesce(end_ns, start_ns), received_ns)) AS last_ns
    FROM span_rows
    GROUP BY trace_id
    UNION ALL
    SELECT coalesce(trace_id, session_trace) AS trace_id, max(judged_ns(time_ns, received_ns))
    FROM log_rows
    WHERE trace_id IS NOT NULL OR session_trace IS NOT NULL
    GROUP BY ALL
)
GROUP BY trace_id;

-- A run over several traces stays whole, or its calls would be numbered anew; so does a session whose logs and
-- spans tell of the same calls.
CREATE OR REPLACE TEMP TABLE shared_runs AS
SELECT DISTINCT run_id, trace_id FROM tool_call_rows WHERE run_source IN ('conversation', 'mcp_session', 'transcript')
UNION
SELECT DISTINCT run_id, trace_id FROM llm_request_rows WHERE run_source IN ('conversation', 'mcp_session', 'transcript')
UNION
SELECT session_trace, trace_id FROM trace_rows WHERE session_trace IS NOT NULL;

CREATE OR REPLACE TEMP TABLE lasting AS
WITH RECURSIVE staying(trace_id) AS (
    SELECT trace_id FROM trace_ends WHERE last_ns >= $cutoff
    UNION
    SELECT other.trace_id
    FROM staying
    JOIN shared_runs mine ON mine.trace_id = staying.trace_id
    JOIN shared_runs other ON other.run_id = mine.run_id
)
SELECT trace_id FROM staying;

CREATE OR REPLACE TEMP TABLE doomed AS
SELECT trace_id, last_ns FROM trace_ends WHERE trace_id NOT IN (SELECT trace_id FROM lasting);
