-- Failed calls by what was recorded of them, most frequent first, each with its first call (run, seq).
, failures AS (
    SELECT tool, kind, outcome, result, run, seq, start_ns FROM verdicts WHERE outcome IN (2, 3) AND TRUE /* filter */
),
failed AS (
    SELECT
        f.*,
        r.run_id,
        row_number() OVER same_text AS nth,
        count(*) OVER (PARTITION BY f.tool, f.kind, f.outcome, f.result) AS calls
    FROM failures AS f
    JOIN runs AS r ON r.run = f.run
    WINDOW same_text AS (PARTITION BY f.tool, f.kind, f.outcome, f.result ORDER BY f.start_ns, r.run_id, f.seq)
)
SELECT tool, kind, outcome, result, run, seq, calls
FROM failed
WHERE nth = 1
ORDER BY calls DESC, start_ns, run_id, seq
LIMIT $limit
