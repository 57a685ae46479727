-- Every run of the store: those with calls and those with requests only. `run` numbers them from 1.
SELECT
    row_number() OVER (ORDER BY run_id) AS run,
    run_id,
    min(parent_run_id) AS parent_run_id,
    min(start_ns) AS start_ns
FROM (
    SELECT run_id, parent_run_id, start_ns FROM tool_call_rows
    UNION ALL
    SELECT run_id, NULL, start_ns FROM llm_request_rows
) AS mentions
GROUP BY run_id
