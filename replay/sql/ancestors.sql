-- The runs around each nested run of `nested_runs` (run, run_id, parent_run_id, started), and when that started.
-- A parent that has neither calls nor requests is not among the `runs`; the chain ends there.
WITH RECURSIVE up AS (
    SELECT run, run_id, started, parent_run_id AS outer_id FROM nested_runs
    UNION
    SELECT u.run, u.run_id, u.started, r.parent_run_id
    FROM up AS u
    JOIN runs AS r ON r.run_id = u.outer_id
    WHERE r.parent_run_id IS NOT NULL
)
SELECT u.run, r.run AS ancestor, u.started AS run_start_ns
FROM up AS u
JOIN runs AS r ON r.run_id = u.outer_id
WHERE u.outer_id <> u.run_id
