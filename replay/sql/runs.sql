-- The runs of `mentions` (sql/mentions.sql), numbered behind $last, first started first. A run that is known
-- (`run_names`: run, run_id) keeps its number. `started`: when it started, by `nested_starts` for nested runs.
SELECT
    CAST(coalesce(k.run, $last + row_number() OVER (PARTITION BY k.run IS NULL ORDER BY m.start_ns, m.run_id)) AS INTEGER)
        AS run,
    m.run_id,
    m.parent_run_id,
    coalesce(s.start_ns, m.start_ns) AS started,
    m.asked > 0 AS asked
FROM (
    SELECT run_id, min(parent_run_id) AS parent_run_id, min(start_ns) AS start_ns, max(asked) AS asked
    FROM mentions
    GROUP BY run_id
) AS m
LEFT JOIN run_names AS k ON k.run_id = m.run_id
LEFT JOIN nested_starts AS s ON s.run_id = m.run_id
