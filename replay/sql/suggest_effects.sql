-- What lay between two calls alike, where it was at most $apart calls, all of one other tool and all
-- successes: did the answer change? Per tool, from `judged` (sql/suggest_judged.sql).
WITH asked AS (
    SELECT
        run, unit, tool, seq, ord, result,
        lag(ord) OVER same_call AS before,
        lag(result) OVER same_call AS result_before
    FROM judged
    WHERE counted AND NOT err AND shown
    WINDOW same_call AS (PARTITION BY key ORDER BY ord)
),
between_them AS (
    SELECT
        p.run, p.unit, p.ord, p.tool, p.result <> p.result_before AS changed,
        min(c.tool) AS other, max(c.tool) AS another, count(*) AS calls,
        count(CASE WHEN c.outcome = 1 THEN 1 END) AS successes
    FROM asked AS p
    JOIN judged AS c ON c.unit = p.unit AND c.ord > p.before AND c.ord < p.ord
    WHERE p.ord - p.before BETWEEN 2 AND 1 + $apart
    GROUP BY p.run, p.unit, p.ord, p.tool, p.result <> p.result_before
)
SELECT
    other AS tool,
    count(*) AS pairs,
    count(CASE WHEN changed THEN 1 END) AS changed,
    count(DISTINCT CASE WHEN changed THEN run END) AS runs
FROM between_them
WHERE other = another AND other <> tool AND calls = successes
GROUP BY other
ORDER BY changed DESC, other
