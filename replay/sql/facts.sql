-- What judging needs of every finished call: texts left out, names turned into numbers.
SELECT
    CAST(r.run AS INTEGER) AS run,
    CAST(c.seq AS INTEGER) AS seq,
    CAST(c.turn AS INTEGER) AS turn,
    CAST(t.id AS INTEGER) AS tool,
    CAST(a.id AS INTEGER) AS agent,
    CAST(s.id AS INTEGER) AS service,
    CAST(d.id AS INTEGER) AS dialect,
    CAST(k.id AS INTEGER) AS kind,
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
JOIN tool_names AS t ON t.name = c.tool_name
JOIN agent_names AS a ON a.name IS NOT DISTINCT FROM c.agent_name
JOIN service_names AS s ON s.name IS NOT DISTINCT FROM c.service_name
JOIN dialect_names AS d ON d.name = c.dialect
JOIN kind_names AS k ON k.name IS NOT DISTINCT FROM
    CASE WHEN c.outcome IN ('schema_error', 'general_tool_error') THEN coalesce(c.error_kind, 'unknown') END
WHERE c.seq IS NOT NULL
