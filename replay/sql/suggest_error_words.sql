-- Successes of a store whose result begins with a word for an error, per tool and word, beside those that do
-- not: `recovered` are such calls after which the same call gave something else. Only results that stand in
-- the call's row, which are short.
WITH begun AS (
    SELECT
        run_id, seq, tool_name, scope_key, result_hash,
        regexp_extract(left(result, 12), '^(Error|ERROR|error|Exception|Traceback|Failed|FAILED|Fatal|FATAL)\b', 1) AS word
    FROM tool_call_rows
    WHERE outcome = 'success' AND seq IS NOT NULL AND TRUE /* filter */
),
followed AS (
    SELECT
        *,
        max(CASE WHEN coalesce(word, '') = '' THEN seq END) OVER (PARTITION BY scope_key) AS last_other
    FROM begun
    WHERE tool_name IN (SELECT tool_name FROM begun WHERE word <> '')
)
SELECT
    tool_name, coalesce(word, '') AS word, count(*) AS calls, list(DISTINCT run_id ORDER BY run_id) AS runs,
    count(CASE WHEN last_other > seq THEN 1 END) AS recovered,
    list(DISTINCT CASE WHEN last_other > seq THEN run_id END) AS recovered_runs,
    arg_min(seq, (run_id, seq)) AS seq
FROM followed
GROUP BY tool_name, coalesce(word, '')
ORDER BY tool_name, word
