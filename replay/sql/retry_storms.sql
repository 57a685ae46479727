-- Retry storms: three or more equal general errors of one key with no success between. Errors without
-- a text are equal if their kinds are.
WITH attempts AS (
    SELECT run, agent, key, seq, outcome, CASE WHEN outcome = 3 THEN coalesce(result, kind) END AS error
    FROM calls
    WHERE outcome IN (1, 3)
      AND key IN (SELECT key FROM calls WHERE outcome = 3 AND key IS NOT NULL GROUP BY key HAVING count(*) >= 3)
),
marked AS (
    SELECT
        *,
        CASE
            WHEN outcome = 3 AND lag(error) OVER (PARTITION BY key ORDER BY seq) IS DISTINCT FROM error THEN seq
        END AS first_seq
    FROM attempts
),
stretches AS (
    SELECT
        *,
        max(first_seq) OVER (PARTITION BY key ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS stretch
    FROM marked
)
SELECT run, min(agent) AS agent, array_agg(seq ORDER BY seq) AS seqs
FROM stretches
WHERE outcome = 3
GROUP BY run, key, stretch
HAVING count(*) >= 3
ORDER BY run, min(seq)
