-- Totals per rule of where it spoke and stopped: `said` (rule, run, notice, stop, made, halts; notice and stop
-- are numbers of calls in the run) over `calls` (sql/calls.sql).
--
-- What a run does not do that starts inside a stopped one, behind the stop, is after the stop as well.
WITH stops AS (
    SELECT s.rule, s.run, c.end_ns
    FROM said AS s
    JOIN calls AS c ON c.run = s.run AND c.seq = s.stop
    WHERE s.halts
),
silenced AS (
    SELECT DISTINCT s.rule, a.run
    FROM stops AS s
    JOIN nesting AS a ON a.ancestor = s.run
    WHERE a.run_start_ns > s.end_ns
),
-- Where the recorded agent would first have noticed anything.
departures AS (
    SELECT s.rule, s.run, c.end_ns
    FROM said AS s
    JOIN calls AS c ON c.run = s.run AND c.seq = least(s.notice, s.stop)
),
departed AS (
    SELECT DISTINCT d.rule, a.run
    FROM departures AS d
    JOIN nesting AS a ON a.ancestor = d.run
    WHERE a.run_start_ns > d.end_ns
),
placed AS (
    SELECT
        s.rule, s.run, s.notice, s.stop,
        CASE WHEN s.made THEN s.stop + 1 ELSE s.stop END AS gone_from,
        d.run IS NULL AND (s.notice IS NULL OR s.notice > s.stop) AS exact
    FROM said AS s
    LEFT JOIN silenced AS z ON z.rule = s.rule AND z.run = s.run
    LEFT JOIN departed AS d ON d.rule = s.rule AND d.run = s.run
    WHERE z.run IS NULL
    UNION ALL
    SELECT rule, run, NULL, NULL, 0, FALSE FROM silenced
)
SELECT
    p.rule,
    count(CASE WHEN c.seq = p.notice THEN 1 END) AS runs_noticed,
    count(CASE WHEN c.seq = p.stop THEN 1 END) AS runs_stopped,
    count(CASE WHEN c.seq = p.stop AND p.exact THEN 1 END) AS runs_stopped_exact,
    count(CASE WHEN c.seq >= p.gone_from AND c.judged = 0 THEN 1 END) AS calls_avoidable,
    count(CASE WHEN c.seq >= p.gone_from AND c.judged = 1 THEN 1 END) AS calls_lost,
    count(CASE WHEN c.seq >= p.gone_from AND c.judged = 2 THEN 1 END) AS calls_unjudged
FROM calls AS c
JOIN placed AS p ON p.run = c.run
WHERE TRUE /* filter */
GROUP BY p.rule
