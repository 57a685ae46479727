-- General errors that were tried again as they were, from `judged`: how often the very same error came back,
-- and how often anything else did. Per tool and error.
WITH tried AS (
    SELECT
        run, seq, tool, outcome, result, shown,
        lag(outcome) OVER same_call AS outcome_before,
        lag(result) OVER same_call AS result_before
    FROM judged
    WHERE key IS NOT NULL AND result IS NOT NULL
    WINDOW same_call AS (PARTITION BY key ORDER BY ord)
)
SELECT
    tool,
    count(CASE WHEN outcome = 3 AND result = result_before THEN 1 END) AS repeated,
    count(CASE WHEN outcome <> 3 OR result <> result_before THEN 1 END) AS others,
    list(DISTINCT run ORDER BY run) AS runs,
    min(run) AS run,
    arg_min(seq, (run, seq)) AS seq
FROM tried
WHERE outcome_before = 3 AND shown
GROUP BY tool, result_before
ORDER BY repeated DESC, tool, run, seq
LIMIT $most
