-- Numbers of every run's calls that say which rules cannot fire on it (replay/rules/_rule.py, RunShape).
-- Each is the largest of the run's agents, as every agent has a rule of its own. Rows and names are counted
-- no further than any rule asks.
WITH ordered AS (
    SELECT
        run, agent, print, tool,
        lag(print, 1) OVER in_turn AS print1,
        lag(print, 2) OVER in_turn AS print2,
        lag(print, 3) OVER in_turn AS print3,
        lag(print, 4) OVER in_turn AS print4,
        count(*) OVER eight AS so_far,
        min(tool) OVER eight AS least,
        max(tool) OVER eight AS most
    FROM facts
    WINDOW
        in_turn AS (PARTITION BY run, agent ORDER BY seq),
        eight AS (PARTITION BY run, agent ORDER BY seq ROWS BETWEEN 7 PRECEDING AND CURRENT ROW)
),
in_turn AS (
    SELECT
        run,
        max(CASE
            WHEN print IS NULL THEN 1
            WHEN print <> print1 OR print1 IS NULL THEN 1
            WHEN print <> print2 OR print2 IS NULL THEN 2
            WHEN print <> print3 OR print3 IS NULL THEN 3
            WHEN print <> print4 OR print4 IS NULL THEN 4
            ELSE 5
        END) AS in_row,
        max(CASE WHEN so_far = 8 AND least = most THEN 8 ELSE 1 END) AS name_in_row,
        count(*) AS calls
    FROM ordered
    GROUP BY run
),
equal AS (
    SELECT run, max(calls) AS same
    FROM (SELECT run, agent, print, count(*) AS calls FROM facts WHERE print IS NOT NULL GROUP BY run, agent, print) AS one
    GROUP BY run
),
failures AS (
    SELECT run, max(calls) AS tool_failures
    FROM (SELECT run, agent, tool, count(*) AS calls FROM facts WHERE outcome IN (2, 3) GROUP BY run, agent, tool) AS one
    GROUP BY run
)
SELECT
    t.run,
    t.calls,
    coalesce(e.same, 0) AS same,
    t.in_row,
    t.name_in_row,
    coalesce(f.tool_failures, 0) AS tool_failures
FROM in_turn AS t
LEFT JOIN equal AS e ON e.run = t.run
LEFT JOIN failures AS f ON f.run = t.run
ORDER BY t.run
