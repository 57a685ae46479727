-- Runs with calls or requests in the traces of `changed_traces`, whose rows start within $since and $until;
-- `spanning`: the run may lie in further traces.
SELECT run_id, max(CASE WHEN run_source IN ('conversation', 'mcp_session', 'transcript') THEN 1 ELSE 0 END) AS spanning
FROM (
    SELECT run_id, run_source FROM tool_call_rows
    WHERE trace_id IN (SELECT trace_id FROM changed_traces) AND start_ns BETWEEN $since AND $until
    UNION ALL
    SELECT run_id, run_source FROM llm_request_rows
    WHERE trace_id IN (SELECT trace_id FROM changed_traces) AND start_ns BETWEEN $since AND $until
) AS mentions
GROUP BY run_id
