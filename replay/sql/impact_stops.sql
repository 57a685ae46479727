-- Units (runs, or what the policy counts together) in which a policy interferes, of `noted_calls`
-- (sql/impact_calls.sql).
--
--   run, seq  one of its calls, by which its trace or session is found
--   stopped   it was blocked, or is nested in a run that was blocked before it started
--   stop_ns   end of the blocked call; NULL: blocked before it started
--   last_ns   end of its last call since the block
--   exact     of what comes after the block
SELECT
    unit,
    min(run) AS run,
    min_by(seq, run) AS seq,
    max(CASE WHEN action IN (2, 4) THEN 1 ELSE 0 END) = 1 AS stopped,
    max(CASE WHEN action = 2 THEN end_ns END) AS stop_ns,
    max(CASE WHEN action IN (2, 4) THEN end_ns END) AS last_ns,
    min(until_ns) AS until_ns,
    min(CASE WHEN (action = 4 AND NOT exact) OR (action = 2 AND (NOT exact OR seen <> 2)) THEN 0 ELSE 1 END) = 1 AS exact
FROM noted_calls
WHERE action IN (1, 2, 4)
GROUP BY unit
