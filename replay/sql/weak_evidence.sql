-- What a recording shows of incidents that may say what they were: after the call that made each an incident
-- (`pivot`), between its calls, and later. Looks at most 1,000 calls ahead, as sql/incident_facts.sql does.
--
-- Inputs: `calls` (sql/calls.sql), `weak_stretches` (incident, run, first_seq, pivot_seq, last_seq, by_tool) and
-- `weak_calls` (incident, run, seq).
WITH mine AS (
    SELECT m.incident, s.by_tool, c.seq, c.key, c.result, c.tool
    FROM weak_calls AS m
    JOIN weak_stretches AS s ON s.incident = m.incident
    JOIN calls AS c ON c.run = m.run AND c.seq = m.seq
),
answers AS (
    SELECT DISTINCT incident, key, result FROM mine WHERE NOT by_tool AND key IS NOT NULL
),
identities AS (
    SELECT DISTINCT incident, CASE WHEN by_tool THEN tool ELSE key END AS identity FROM mine
),
after_pivot AS (
    SELECT
        s.incident,
        count(*) AS calls_after,
        count(CASE WHEN c.judged = 1 THEN 1 END) AS new_after,
        count(CASE WHEN c.judged = 0 THEN 1 END) AS known_after,
        count(CASE WHEN c.judged = 2 AND c.outcome <> 3 THEN 1 END) AS unknown_after,
        max(c.seq) >= s.pivot_seq + 1000 AS cut
    FROM weak_stretches AS s
    JOIN calls AS c ON c.run = s.run AND c.seq > s.pivot_seq AND c.seq <= s.pivot_seq + 1000
    GROUP BY s.incident, s.pivot_seq
),
-- Calls of the run that are not the incident's own, from its first call to 1,000 calls after its last.
others AS (
    SELECT s.incident, c.seq, c.judged, c.start_ns, c.outcome, c.result, s.last_seq, s.by_tool,
        i.identity IS NOT NULL AS same_call,
        i.identity IS NOT NULL AND c.outcome IN (1, 2) AND c.result IS NOT NULL AND a.incident IS NULL
            AND c.seq > s.last_seq AS changed,
        i.identity IS NOT NULL AND c.outcome = 1 AND c.seq > s.last_seq AS succeeded
    FROM weak_stretches AS s
    JOIN calls AS c ON c.run = s.run AND c.seq > s.first_seq AND c.seq <= s.last_seq + 1000
    LEFT JOIN mine AS m ON m.incident = s.incident AND m.seq = c.seq
    LEFT JOIN identities AS i
        ON i.incident = s.incident AND i.identity = CASE WHEN s.by_tool THEN c.tool ELSE c.key END
    LEFT JOIN answers AS a ON a.incident = s.incident AND a.key = c.key AND a.result = c.result
    WHERE m.incident IS NULL
),
turns AS (
    SELECT
        incident,
        min(CASE WHEN changed THEN seq END) AS changed_seq,
        min(CASE WHEN succeeded THEN seq END) AS succeeded_seq
    FROM others
    GROUP BY incident
),
between AS (
    SELECT
        o.incident,
        count(CASE WHEN o.seq < o.last_seq AND NOT o.same_call AND o.judged = 1 THEN 1 END) AS new_between,
        count(CASE WHEN o.seq > o.last_seq AND o.seq < t.changed_seq AND NOT o.same_call AND o.judged = 1 THEN 1 END)
            AS new_before_change
    FROM others AS o
    JOIN turns AS t ON t.incident = o.incident
    GROUP BY o.incident
)
SELECT
    s.incident,
    coalesce(p.calls_after, 0) AS calls_after,
    coalesce(p.new_after, 0) AS new_after,
    coalesce(p.known_after, 0) AS known_after,
    coalesce(p.unknown_after, 0) AS unknown_after,
    coalesce(p.cut, FALSE) AS cut,
    coalesce(b.new_between, 0) AS new_between,
    coalesce(b.new_before_change, 0) AS new_before_change,
    t.changed_seq - s.last_seq AS changed_calls_later,
    greatest(h.start_ns - l.end_ns, 0) AS changed_ns_later,
    t.succeeded_seq - s.last_seq AS succeeded_calls_later
FROM weak_stretches AS s
JOIN calls AS l ON l.run = s.run AND l.seq = s.last_seq
LEFT JOIN after_pivot AS p ON p.incident = s.incident
LEFT JOIN turns AS t ON t.incident = s.incident
LEFT JOIN calls AS h ON h.run = s.run AND h.seq = t.changed_seq
LEFT JOIN between AS b ON b.incident = s.incident
