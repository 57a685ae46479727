-- Calls that a policy interferes with, does not count, or that are projected: one row each, for the other statements
-- of `impact_…`. What is missing is allowed and exact, or lies in a run in which nothing happens.
--
--   chosen    under the filter
--   idle      what is done with it if nothing happens in its run: 0 allowed, 3 not counted
-- and of the blocked call and those after it:
--   wall_ns   how much longer the run took for it, from the end of the call before (of all calls since the block)
--             to its own end. A moment after the block of a run around it is that run's and not counted again.
--   until_ns  from when on the time is a run's around it; NULL: never
, noted AS (
    SELECT
        run, unit, ord, seq, turn, tool, agent, outcome, kind, action, judged, exact, seen, counted, start_ns, end_ns,
        CASE WHEN exempt OR counted THEN 0 ELSE 3 END AS idle,
        CASE WHEN TRUE /* filter */ THEN TRUE ELSE FALSE END AS chosen
    FROM verdicts
    WHERE action <> 0 OR NOT exact
),
stops AS (
    SELECT unit, end_ns FROM noted WHERE action = 2
),
around AS (
    SELECT n.run AS unit, min(s.end_ns) AS until_ns
    FROM nesting AS n
    JOIN stops AS s ON s.unit = n.ancestor
    GROUP BY n.run
),
after AS (
    SELECT
        n.*,
        r.until_ns,
        max(n.end_ns) OVER (PARTITION BY n.unit ORDER BY n.ord ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_ns
    FROM noted AS n
    LEFT JOIN around AS r ON r.unit = n.unit
    WHERE n.action IN (2, 4)
)
SELECT
    run, unit, seq, turn, tool, agent, outcome, kind, action, exact, seen, counted, idle, chosen, start_ns, end_ns,
    until_ns,
    CASE WHEN action = 4 THEN judged END AS judged,
    CASE WHEN action = 4 THEN greatest(end_ns - start_ns, 0) END AS tool_ns,
    CASE WHEN action = 4
        THEN coalesce(greatest(least(end_ns, coalesce(until_ns, end_ns)) - before_ns, 0), 0)
    END AS wall_ns
FROM after
UNION ALL
SELECT
    run, unit, seq, turn, tool, agent, outcome, kind, action, exact, seen, counted, idle, chosen, start_ns, end_ns,
    NULL, NULL, NULL, NULL
FROM noted
WHERE action NOT IN (2, 4)
