-- What rules read of single calls of `rule_runs` (run_id, run, errors): how an error begins, the arguments of
-- tools in $read, of calls in `mixed_keys` and of calls that bring a reason, the results of tools in $results.
WITH wanted AS (
    SELECT
        r.run, c.seq, c.arguments, c.arguments_content, c.result, c.result_content,
        c.error_message, c.error_message_content,
        r.errors AND c.outcome IN ('schema_error', 'general_tool_error') IS TRUE AS for_error,
        m.key IS NOT NULL AS mixed,
        m.key IS NOT NULL
            OR c.tool_name IN (SELECT unnest($read))
            OR coalesce(c.arguments LIKE '%\_duplicate\_reasoning%' ESCAPE '\', FALSE) AS for_arguments,
        c.tool_name IN (SELECT unnest($results)) AS for_result
    FROM tool_call_rows AS c
    JOIN rule_runs AS r ON r.run_id = c.run_id
    LEFT JOIN mixed_keys AS m ON m.key = c.scope_key
    WHERE c.seq IS NOT NULL
),
kept AS (
    SELECT * FROM wanted WHERE for_error OR for_arguments OR for_result
)
SELECT
    k.run,
    CAST(k.seq AS INTEGER) AS seq,
    k.mixed,
    CASE WHEN k.for_error THEN left(coalesce(k.result, got.text, k.error_message, said.text), 200) END AS error,
    CASE WHEN k.for_arguments THEN coalesce(k.arguments, given.text) END AS arguments,
    CASE WHEN k.for_result THEN coalesce(k.result, got.text) END AS output
FROM kept AS k
LEFT JOIN contents AS given ON k.for_arguments AND given.hash = k.arguments_content
LEFT JOIN contents AS got ON (k.for_error OR k.for_result) AND got.hash = k.result_content
LEFT JOIN contents AS said ON k.for_error AND said.hash = k.error_message_content
