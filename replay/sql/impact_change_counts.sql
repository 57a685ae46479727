-- `changed_calls` (sql/impact_changes.sql) by how they change.
SELECT before, after, count(*) AS calls, count(DISTINCT run) AS runs, count(CASE WHEN exact THEN 1 END) AS exact_calls
FROM changed_calls
GROUP BY before, after
ORDER BY calls DESC, before, after
