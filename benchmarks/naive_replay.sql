-- What one would write without an engine: streaks by gaps and islands, from keys as the store has them.
WITH compared AS (
    SELECT run_id, seq, scope_key, lag(result_hash) OVER w IS DISTINCT FROM result_hash AS other
    FROM tool_call_rows
    WHERE outcome IN ('success', 'schema_error') AND scope_key IS NOT NULL AND result_hash IS NOT NULL
    WINDOW w AS (PARTITION BY scope_key ORDER BY seq)
),
streaks AS (
    SELECT run_id, seq, scope_key, sum(CAST(other AS INTEGER)) OVER (PARTITION BY scope_key ORDER BY seq) AS streak
    FROM compared
),
counts AS (
    SELECT run_id, seq, row_number() OVER (PARTITION BY scope_key, streak ORDER BY seq) AS count FROM streaks
),
stops AS (
    SELECT run_id, min(seq) AS seq FROM counts WHERE count >= $block GROUP BY run_id
)
SELECT
    count(CASE WHEN c.count >= $nudge AND (s.seq IS NULL OR c.seq < s.seq) THEN 1 END) AS calls_nudged,
    count(DISTINCT s.run_id) AS runs_blocked
FROM counts AS c
LEFT JOIN stops AS s ON s.run_id = c.run_id
