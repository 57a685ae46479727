-- Failed calls by what was recorded of them, most frequent first, each with its first call (run, seq).
, failed AS (
    SELECT
        tool, kind, outcome, result, run, seq, start_ns,
        row_number() OVER same_text AS nth,
        count(*) OVER (PARTITION BY tool, kind, outcome, result) AS calls
    FROM verdicts
    WHERE outcome IN (2, 3) AND TRUE /* filter */
    WINDOW same_text AS (PARTITION BY tool, kind, outcome, result ORDER BY start_ns, run, seq)
)
SELECT tool, kind, outcome, result, run, seq, calls
FROM failed
WHERE nth = 1
ORDER BY calls DESC, start_ns, run, seq
LIMIT $limit
