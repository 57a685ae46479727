-- Runs that leave what was recorded, by where they leave it. Inputs `noted_calls` (sql/impact_calls.sql)
-- and `run_calls` (sql/impact_base.sql). Runs without a call under the filter are left out.
--
--   position      calls of the run that are exact: the number of the call with the first nudge or block that the
--                 recorded agent did not see; 0: a run around it had left before it started
--   calls         finished calls of the run, whatever the filter
--   projected_runs   runs of which no call under the filter is exact
--   projected_calls  calls under the filter that are not exact
SELECT
    b.calls - p.projected AS position,
    b.calls,
    count(*) AS runs,
    count(CASE WHEN p.projected_chosen = b.chosen THEN 1 END) AS projected_runs,
    CAST(sum(p.projected_chosen) AS BIGINT) AS projected_calls
FROM (
    SELECT
        run,
        count(CASE WHEN NOT exact THEN 1 END) AS projected,
        count(CASE WHEN NOT exact AND chosen THEN 1 END) AS projected_chosen
    FROM noted_calls
    GROUP BY run
    HAVING count(CASE WHEN NOT exact OR (action IN (1, 2) AND seen <> action) THEN 1 END) > 0
) AS p
JOIN run_calls AS b ON b.run = p.run
WHERE b.chosen > 0
GROUP BY b.calls - p.projected, b.calls
ORDER BY position, b.calls
