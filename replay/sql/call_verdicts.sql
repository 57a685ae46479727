-- One row per call: action, and the count as the guard reports it. After a block nothing is counted
-- any more: a call then has the count that its key had at the block.
, at_block AS (
    SELECT
        *,
        first_value(seq) OVER last_counted AS last_seq,
        first_value(count) OVER last_counted AS last_count
    FROM verdicts
    WINDOW last_counted AS (
        PARTITION BY run, key
        ORDER BY CASE WHEN seq <= coalesce(blocked_at, seq) THEN 0 ELSE 1 END, seq DESC
        ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
    )
)
SELECT
    run,
    seq,
    CAST(CASE
        WHEN exempt OR key IS NULL THEN 0
        WHEN action <> 4 THEN count
        WHEN last_seq <= blocked_at THEN last_count
        ELSE 0
    END AS INTEGER) AS count,
    action,
    CASE WHEN action = 4 THEN judged END AS judged,
    exact
FROM at_block
WHERE TRUE /* filter */
ORDER BY run, seq
