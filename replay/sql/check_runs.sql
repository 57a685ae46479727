-- Runs with finished calls, one row each: those that were blocked first, then nudged, then with an incident
-- ($with_incidents), then those that could not be judged, then the others; by time.
--
--   judged         calls of which the guard could tell what they are: it counts them, or knows them to have failed
--   decisive_seq   the blocked call, else the first nudged one
--   all_*          over all runs, also those beyond $limit
, seen_runs AS (
    SELECT
        run,
        min(start_ns) AS first_ns,
        max(end_ns) AS last_ns,
        count(*) AS calls,
        count(CASE WHEN slot IS NOT NULL AND (result IS NOT NULL OR outcome = 3) THEN 1 END) AS judged,
        count(CASE WHEN slot IS NULL THEN 1 END) AS without_arguments,
        count(CASE WHEN action = 1 THEN 1 END) AS nudged,
        count(CASE WHEN action = 2 THEN 1 END) AS blocked,
        count(CASE WHEN action = 4 AND judged = 0 THEN 1 END) AS avoidable,
        count(CASE WHEN action = 4 AND judged = 1 THEN 1 END) AS lost,
        count(CASE WHEN action = 4 AND judged = 2 THEN 1 END) AS unjudged,
        coalesce(min(CASE WHEN action = 2 THEN seq END), min(CASE WHEN action = 1 THEN seq END)) AS decisive_seq,
        max(seen) > 0 AS guarded,
        min(service) AS service,
        CASE WHEN min(agent) = max(agent) THEN min(agent) END AS agent
    FROM verdicts
    GROUP BY run
),
ranked AS (
    SELECT
        *,
        CASE
            WHEN blocked > 0 THEN 0
            WHEN nudged > 0 THEN 1
            WHEN run IN (SELECT unnest($with_incidents)) THEN 2
            WHEN judged = 0 THEN 3
            ELSE 4
        END AS place,
        CAST(count(*) OVER () AS BIGINT) AS all_runs,
        CAST(count(CASE WHEN judged > 0 THEN 1 END) OVER () AS BIGINT) AS all_judged,
        CAST(count(CASE WHEN judged = 0 AND without_arguments = calls THEN 1 END) OVER () AS BIGINT) AS all_blind,
        CAST(count(CASE WHEN guarded THEN 1 END) OVER () AS BIGINT) AS all_guarded
    FROM seen_runs
),
first_ones AS (
    SELECT k.*, n.run_id, CAST(count(CASE WHEN k.place < 3 THEN 1 END) OVER () AS BIGINT) AS all_found
    FROM ranked AS k
    JOIN runs AS n ON n.run = k.run
    ORDER BY k.place, k.first_ns, n.run_id
    LIMIT $limit
)
SELECT r.*, c.count AS decisive_count, c.action AS decisive_action, c.exact AS decisive_exact
FROM first_ones AS r
LEFT JOIN verdicts AS c ON c.run = r.run AND c.seq = r.decisive_seq
ORDER BY r.place, r.first_ns, r.run_id
