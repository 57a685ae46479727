-- `changed_calls` (sql/impact_changes.sql) in all: calls that only one of the policies prevents, by what they brought.
SELECT
    count(DISTINCT run) AS runs,
    count(CASE WHEN exact THEN 1 END) AS exact_calls,
    count(CASE WHEN judged_after = 0 AND judged_before IS NULL THEN 1 END) AS newly_avoided,
    count(CASE WHEN judged_before = 0 AND judged_after IS NULL THEN 1 END) AS no_longer_avoided,
    count(CASE WHEN judged_after = 1 AND judged_before IS NULL THEN 1 END) AS newly_lost,
    count(CASE WHEN judged_before = 1 AND judged_after IS NULL THEN 1 END) AS no_longer_lost,
    count(CASE WHEN judged_after = 2 AND judged_before IS NULL THEN 1 END) AS newly_unjudged,
    count(CASE WHEN judged_before = 2 AND judged_after IS NULL THEN 1 END) AS no_longer_unjudged
FROM changed_calls
