-- What judging needs of every finished call: texts left out, names turned into numbers. Inputs, beside the
-- calls: `run_names` (run, run_id) and for each kind of name `<kind>_names` (name, id).
SELECT
    r.run,
    CAST(c.seq AS INTEGER) AS seq,
    CAST(c.turn AS INTEGER) AS turn,
    x.id AS trace,
    u.id AS session,
    t.id AS tool,
    a.id AS agent,
    s.id AS service,
    d.id AS dialect,
    k.id AS kind,
    CAST(CASE c.outcome
        WHEN 'success' THEN 1 WHEN 'schema_error' THEN 2 WHEN 'general_tool_error' THEN 3 ELSE 0
    END AS TINYINT) AS outcome,
    CAST(CASE c.recorded_verdict WHEN 'nudge' THEN 1 WHEN 'block' THEN 2 ELSE 0 END AS TINYINT) AS seen,
    c.content_state = 'truncated' AS truncated,
    c.fingerprint AS print,
    c.scope_key AS key,
    c.result_hash AS result,
    c.start_ns,
    c.end_ns
FROM tool_call_rows AS c
JOIN run_names AS r ON r.run_id = c.run_id
JOIN trace_names AS x ON x.name = c.trace_id
LEFT JOIN session_names AS u ON u.name = c.session_id
JOIN tool_names AS t ON t.name = c.tool_name
JOIN agent_names AS a ON a.name IS NOT DISTINCT FROM c.agent_name
JOIN service_names AS s ON s.name IS NOT DISTINCT FROM c.service_name
JOIN dialect_names AS d ON d.name = c.dialect
JOIN kind_names AS k ON k.name IS NOT DISTINCT FROM
    CASE WHEN c.outcome IN ('schema_error', 'general_tool_error') THEN coalesce(c.error_kind, 'unknown') END
WHERE c.seq IS NOT NULL
