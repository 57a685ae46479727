-- Failed calls in stretches of three or more failures of one tool (no other outcome of it between)
-- with at least two different arguments. Texts decide later which of them are one error.
-- Few tools fail so often in a run; the windows look at the calls of these.
WITH failing AS (
    SELECT run, agent, tool
    FROM all_calls
    WHERE outcome IN (2, 3)
    GROUP BY run, agent, tool
    HAVING count(*) >= 3 AND count(DISTINCT key) >= 2
),
turns AS (
    SELECT
        c.run, c.agent, c.tool, c.seq, c.key, c.outcome IN (2, 3) AS failed,
        row_number() OVER (PARTITION BY c.run, c.agent, c.tool ORDER BY c.seq)
            - row_number() OVER (PARTITION BY c.run, c.agent, c.tool, c.outcome IN (2, 3) ORDER BY c.seq) AS stretch
    FROM all_calls AS c
    JOIN failing AS f ON f.run = c.run AND f.agent = c.agent AND f.tool = c.tool
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
