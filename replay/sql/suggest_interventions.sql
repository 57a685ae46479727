-- Every nudge and block under the policy, and whether the same call gave another result later in the run.
-- Behind sql/verdicts.sql.
-- `key` is a call of one run and `seq` its order there; `ord` may be that of one of several traces or sessions.
, last_calls AS (
    SELECT key, max(seq) AS seq FROM verdicts WHERE counted GROUP BY key HAVING count(*) > 1
),
last_results AS (
    SELECT l.key, l.seq, v.result
    FROM last_calls AS l
    JOIN verdicts AS v ON v.key = l.key AND v.seq = l.seq
    WHERE v.counted
),
-- The last call that gave something else than the very last one.
other_results AS (
    SELECT l.key, l.result, max(CASE WHEN v.result <> l.result THEN v.seq END) AS other_seq
    FROM last_results AS l
    JOIN verdicts AS v ON v.key = l.key
    WHERE v.counted
    GROUP BY l.key, l.result
)
SELECT
    v.run, v.seq, v.tool, v.action, v.count,
    coalesce(CASE WHEN v.result <> o.result THEN TRUE ELSE o.other_seq > v.seq END, FALSE) AS moved
FROM verdicts AS v
LEFT JOIN other_results AS o ON o.key = v.key
WHERE v.action IN (1, 2) AND TRUE /* filter */
