-- Calls that a policy interferes with, and those that are projected: one row each, for the other statements of
-- `impact_…`. What is missing is exact, and allowed or not counted; with $all it is allowed.
--
--   chosen   under the filter
--   wall_ns  of a call after a block: how much longer the run took for it, from the end of the call before
--            (of all calls since the block) to its own end. A moment after the block of a run around it is
--            that run's and not counted again.
--   until_ns from when on the time is a run's around it; NULL: never
, noted AS (
    SELECT
        run, unit, ord, seq, turn, tool, agent, outcome, kind, action, judged, exact, seen, start_ns, end_ns,
        CASE WHEN action IN (2, 4) THEN TRUE ELSE FALSE END AS from_block,
        CASE WHEN TRUE /* filter */ THEN TRUE ELSE FALSE END AS chosen
    FROM verdicts
    WHERE action IN (1, 2, 4) OR NOT exact OR (action = 3 AND CAST($all AS BOOLEAN))
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
        run, seq,
        max(end_ns) OVER (PARTITION BY unit ORDER BY ord ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_ns
    FROM noted
    WHERE from_block
)
SELECT
    n.run, n.unit, n.ord, n.seq, n.turn, n.tool, n.agent, n.outcome, n.kind, n.action, n.exact, n.seen, n.chosen,
    n.start_ns, n.end_ns, r.until_ns,
    CASE WHEN n.action = 4 THEN n.judged END AS judged,
    CASE WHEN n.action = 4 THEN greatest(n.end_ns - n.start_ns, 0) END AS tool_ns,
    CASE WHEN n.action = 4
        THEN coalesce(greatest(least(n.end_ns, coalesce(r.until_ns, n.end_ns)) - a.before_ns, 0), 0)
    END AS wall_ns
FROM noted AS n
LEFT JOIN around AS r ON r.unit = n.unit
LEFT JOIN after AS a ON a.run = n.run AND a.seq = n.seq
