-- One row per call, by the start of its run: action, and the count as the guard reports it. After a block nothing is counted
-- and nothing resets any more: a call then has the count that its slot had at the block.
, at_block AS (
    SELECT
        *,
        first_value(counted AND NOT exempt AND ord <= blocked_at) OVER last_counted AS has_count,
        first_value(count) OVER last_counted AS last_count,
        first_value(resets_before) OVER last_counted AS last_resets,
        first_value(successes_before) OVER last_counted AS last_successes,
        count(CASE WHEN resets AND outcome = 1 AND ord <= blocked_at THEN 1 END) OVER (PARTITION BY unit) AS resets_then,
        count(CASE WHEN outcome = 1 AND ord <= blocked_at THEN 1 END) OVER (PARTITION BY slot) AS successes_then
    FROM verdicts
    WINDOW last_counted AS (
        PARTITION BY slot, err
        ORDER BY CASE WHEN counted AND NOT exempt AND ord <= blocked_at THEN 0 ELSE 1 END, ord DESC
        ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
    )
),
said AS (
    SELECT
        run,
        seq,
        CAST(CASE
            WHEN exempt OR slot IS NULL THEN 0
            WHEN action <> 4 THEN count
            WHEN has_count AND (resets OR last_resets = resets_then) AND (NOT err OR last_successes = successes_then)
                THEN last_count
            ELSE 0
        END AS INTEGER) AS count,
        action,
        CASE WHEN action = 4 THEN judged END AS judged,
        exact
    FROM at_block
    WHERE TRUE /* filter */
)
SELECT s.*
FROM said AS s
JOIN runs AS r ON r.run = s.run
ORDER BY r.started, r.run_id, s.seq
