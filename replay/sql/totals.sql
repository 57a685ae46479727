-- Totals per label, everything and the exact part, of the runs in which anything happens (the others
-- hold allowed and uncounted calls only; sql/base.sql counts them). $by names the label.
SELECT
    label,
    count(*) AS runs,
    CAST(sum(calls) AS BIGINT) AS calls,
    CAST(sum(CASE WHEN nudged > 0 THEN 1 ELSE 0 END) AS BIGINT) AS runs_nudged,
    CAST(sum(CASE WHEN blocked > 0 THEN 1 ELSE 0 END) AS BIGINT) AS runs_blocked,
    CAST(sum(nudged) AS BIGINT) AS calls_nudged,
    CAST(sum(blocked) AS BIGINT) AS calls_blocked,
    CAST(sum(avoidable) AS BIGINT) AS calls_avoidable,
    CAST(sum(lost) AS BIGINT) AS calls_lost,
    CAST(sum(unjudged) AS BIGINT) AS calls_unjudged,
    CAST(sum(CASE WHEN exact_calls > 0 THEN 1 ELSE 0 END) AS BIGINT) AS exact_runs,
    CAST(sum(exact_calls) AS BIGINT) AS exact_calls,
    CAST(sum(CASE WHEN exact_nudged > 0 THEN 1 ELSE 0 END) AS BIGINT) AS exact_runs_nudged,
    CAST(sum(CASE WHEN exact_blocked > 0 THEN 1 ELSE 0 END) AS BIGINT) AS exact_runs_blocked,
    CAST(sum(exact_nudged) AS BIGINT) AS exact_calls_nudged,
    CAST(sum(exact_blocked) AS BIGINT) AS exact_calls_blocked,
    CAST(sum(exact_avoidable) AS BIGINT) AS exact_calls_avoidable,
    CAST(sum(exact_lost) AS BIGINT) AS exact_calls_lost,
    CAST(sum(exact_unjudged) AS BIGINT) AS exact_calls_unjudged
FROM (
    SELECT
        label,
        run,
        count(*) AS calls,
        count(CASE WHEN action = 1 THEN 1 END) AS nudged,
        count(CASE WHEN action = 2 THEN 1 END) AS blocked,
        count(CASE WHEN action = 4 AND judged = 0 THEN 1 END) AS avoidable,
        count(CASE WHEN action = 4 AND judged = 1 THEN 1 END) AS lost,
        count(CASE WHEN action = 4 AND judged = 2 THEN 1 END) AS unjudged,
        count(CASE WHEN exact THEN 1 END) AS exact_calls,
        count(CASE WHEN exact AND action = 1 THEN 1 END) AS exact_nudged,
        count(CASE WHEN exact AND action = 2 THEN 1 END) AS exact_blocked,
        count(CASE WHEN exact AND action = 4 AND judged = 0 THEN 1 END) AS exact_avoidable,
        count(CASE WHEN exact AND action = 4 AND judged = 1 THEN 1 END) AS exact_lost,
        count(CASE WHEN exact AND action = 4 AND judged = 2 THEN 1 END) AS exact_unjudged
    FROM (
        SELECT
            *,
            CASE $by WHEN 'tool' THEN tool WHEN 'outcome' THEN outcome WHEN 'kind' THEN kind ELSE 0 END AS label
        FROM verdicts
        WHERE touched AND TRUE /* filter */
    ) AS labelled
    GROUP BY label, run
) AS per_run
GROUP BY label
ORDER BY label
