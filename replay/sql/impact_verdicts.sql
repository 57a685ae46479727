-- Runs and calls with an intervention, in all and by tool, agent, model, outcome and kind of error.
-- Input `asked_calls` with `model`. `level`: which of the columns is set (`grouping`).
SELECT
    grouping(tool, agent, model, outcome, kind) AS level,
    tool, agent, model, outcome, kind,
    count(DISTINCT CASE WHEN action = 1 THEN run END) AS runs_nudged,
    count(DISTINCT CASE WHEN action = 2 THEN run END) AS runs_blocked,
    count(CASE WHEN action = 1 THEN 1 END) AS calls_nudged,
    count(CASE WHEN action = 2 THEN 1 END) AS calls_blocked,
    count(DISTINCT CASE WHEN action = 1 AND exact THEN run END) AS exact_runs_nudged,
    count(DISTINCT CASE WHEN action = 2 AND exact THEN run END) AS exact_runs_blocked,
    count(CASE WHEN action = 1 AND exact THEN 1 END) AS exact_calls_nudged,
    count(CASE WHEN action = 2 AND exact THEN 1 END) AS exact_calls_blocked
FROM labelled_calls
GROUP BY GROUPING SETS ((), (tool), (agent), (model), (outcome), (kind))
