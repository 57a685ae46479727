-- Failed calls in stretches of three or more failures of one tool (no other outcome of it between)
-- with at least two different arguments. Texts decide later which of them are one error.
WITH turns AS (
    SELECT
        run, agent, tool, seq, key, outcome IN (2, 3) AS failed,
        row_number() OVER (PARTITION BY run, agent, tool ORDER BY seq)
            - row_number() OVER (PARTITION BY run, agent, tool, outcome IN (2, 3) ORDER BY seq) AS stretch
    FROM all_calls
),
long AS (
    SELECT run, agent, tool, stretch
    FROM turns
    WHERE failed
    GROUP BY run, agent, tool, stretch
    HAVING count(*) >= 3 AND count(DISTINCT key) >= 2
)
SELECT t.run, t.agent, t.tool, t.stretch, t.seq, t.key
FROM turns AS t
JOIN long AS l ON l.run = t.run AND l.agent = t.agent AND l.tool = t.tool AND l.stretch = t.stretch
WHERE t.failed
ORDER BY t.run, t.agent, t.tool, t.seq
