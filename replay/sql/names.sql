-- The different names in one column, most calls first. $column as in facts.sql.
SELECT name
FROM (
    SELECT
        CASE $column
            WHEN 'tool' THEN tool_name
            WHEN 'agent' THEN agent_name
            WHEN 'service' THEN service_name
            WHEN 'dialect' THEN dialect
            WHEN 'trace' THEN trace_id
            WHEN 'session' THEN session_id
            WHEN 'kind' THEN
                CASE WHEN outcome IN ('schema_error', 'general_tool_error') THEN coalesce(error_kind, 'unknown') END
        END AS name
    FROM tool_call_rows
) AS named
GROUP BY name
ORDER BY count(*) DESC, name
