-- What incidents span and how they ended. Input `members` (incident, number, run, seq, by_tool).
--
-- seq numbers the calls of a run without gaps, so calls lay between where a stretch is longer than
-- its calls. The end looks at most 1,000 calls ahead: a run of 100,000 calls with thousands of
-- incidents would else be compared with itself.
WITH mine AS (
    SELECT m.incident, m.number, m.by_tool, c.*, greatest(c.end_ns - c.start_ns, 0) AS took
    FROM members AS m
    JOIN calls AS c ON c.run = m.run AND c.seq = m.seq
),
stretches AS (
    SELECT
        incident,
        run,
        by_tool,
        count(*) AS calls,
        count(DISTINCT key) AS keys,
        min(seq) AS first_seq,
        max(seq) AS last_seq,
        min(start_ns) AS first_ns,
        max(end_ns) AS last_ns,
        CAST(coalesce(CASE WHEN sum(took) < 9e18 THEN sum(took) END, 0) AS BIGINT) AS tool_ns,
        array_agg(tool ORDER BY number) AS tools,
        max(CASE WHEN number = 1 THEN agent END) AS agent,
        max(CASE WHEN number = 1 THEN service END) AS service,
        max(CASE WHEN number = 1 THEN dialect END) AS dialect,
        max(CASE WHEN number = 1 THEN outcome END) AS outcome,
        max(CASE WHEN number = 1 THEN kind END) AS kind,
        max(CASE WHEN number = 1 THEN key END) AS key
    FROM mine
    GROUP BY incident, run, by_tool
),
blocks AS (
    SELECT incident, min(number) AS number, min_by(end_ns, number) AS end_ns FROM mine WHERE seen = 2 GROUP BY incident
),
-- A live guard's block stopped it unless calls of it began behind the block that were not blocked.
stopped AS (
    SELECT b.incident, b.number AS stopped_at
    FROM blocks AS b
    JOIN mine AS m ON m.incident = b.incident
    GROUP BY b.incident, b.number
    HAVING NOT bool_or(m.number > b.number AND m.seen <> 2 AND m.start_ns >= b.end_ns)
),
answers AS (
    SELECT DISTINCT incident, key, result FROM mine WHERE NOT by_tool AND key IS NOT NULL
),
identities AS (
    SELECT DISTINCT incident, CASE WHEN by_tool THEN tool ELSE key END AS identity FROM mine
),
later AS (
    SELECT
        s.incident,
        max(CASE
            WHEN i.identity IS NULL THEN 0
            WHEN s.by_tool THEN CASE WHEN c.outcome = 1 THEN 1 ELSE 0 END
            ELSE CASE WHEN c.outcome IN (1, 2) AND c.result IS NOT NULL AND a.incident IS NULL THEN 1 ELSE 0 END
        END) AS another_result,
        max(CASE WHEN i.identity IS NULL THEN 1 ELSE 0 END) AS other_work
    FROM stretches AS s
    JOIN calls AS c ON c.run = s.run AND c.seq > s.last_seq AND c.seq <= s.last_seq + 1000
    LEFT JOIN identities AS i
        ON i.incident = s.incident AND i.identity = CASE WHEN s.by_tool THEN c.tool ELSE c.key END
    LEFT JOIN answers AS a ON a.incident = s.incident AND a.key = c.key AND a.result = c.result
    GROUP BY s.incident
)
SELECT
    s.*,
    r.run_id,
    coalesce(l.another_result, 0) AS another_result,
    coalesce(l.other_work, 0) AS other_work,
    b.stopped_at
FROM stretches AS s
JOIN runs AS r ON r.run = s.run
LEFT JOIN later AS l ON l.incident = s.incident
LEFT JOIN stopped AS b ON b.incident = s.incident
ORDER BY s.incident
