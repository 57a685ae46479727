-- Call sequences of one agent in one run that may hold a cycle: two different calls, each with one
-- result at least three times, and enough calls that equal the one 2, 3, 4 or 5 places before.
WITH repeated AS (
    SELECT run, agent
    FROM (
        SELECT run, agent, key, result
        FROM calls
        WHERE key IS NOT NULL AND result IS NOT NULL
        GROUP BY run, agent, key, result
        HAVING count(*) >= 3
    ) AS often
    GROUP BY run, agent
    HAVING count(*) >= 2
),
sequences AS (
    SELECT c.run, c.agent, c.seq, c.key, c.result
    FROM calls AS c
    JOIN repeated AS r ON r.run = c.run AND r.agent = c.agent
),
compared AS (
    SELECT
        run,
        agent,
        CASE WHEN key = lag(key, 2) OVER w AND result = lag(result, 2) OVER w THEN 1 ELSE 0 END AS same_2,
        CASE WHEN key = lag(key, 3) OVER w AND result = lag(result, 3) OVER w THEN 1 ELSE 0 END AS same_3,
        CASE WHEN key = lag(key, 4) OVER w AND result = lag(result, 4) OVER w THEN 1 ELSE 0 END AS same_4,
        CASE WHEN key = lag(key, 5) OVER w AND result = lag(result, 5) OVER w THEN 1 ELSE 0 END AS same_5
    FROM sequences
    WINDOW w AS (PARTITION BY run, agent ORDER BY seq)
),
likely AS (
    SELECT run, agent
    FROM compared
    GROUP BY run, agent
    HAVING sum(same_2) >= 4 OR sum(same_3) >= 6 OR sum(same_4) >= 8 OR sum(same_5) >= 10
)
SELECT s.run, s.agent, s.seq, s.key, s.result
FROM sequences AS s
JOIN likely AS l ON l.run = s.run AND l.agent = s.agent
ORDER BY s.run, s.agent, s.seq
