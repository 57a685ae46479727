-- The requests after a block: those that a stopped unit sent at or after the end of the blocked call.
-- Inputs `unit_requests`, `unit_stops` (sql/impact_stops.sql), `asked_calls` (sql/impact_asked.sql).
--
--   part     0 avoidable, 1 lost, 2 unjudged: what the calls after the block came to that it asked for; lost
--            where one of them was lost, else unjudged where one of them is. 3: it asked for none of them
--   wall_ns  of part 3: how much longer the unit took for it, after its last call
WITH parts AS (
    SELECT
        number,
        CASE WHEN max(CASE WHEN judged = 1 THEN 1 ELSE 0 END) = 1 THEN 1 ELSE max(judged) END AS part,
        max(CASE WHEN chosen THEN 1 ELSE 0 END) = 1 AS asks_chosen
    FROM asked_calls
    WHERE action = 4 AND number IS NOT NULL
    GROUP BY number
),
sent AS (
    SELECT
        q.number, q.unit, q.run, q.agent, q.model, q.input_tokens, q.output_tokens, q.cost, q.end_ns,
        q.chosen AND (coalesce(p.asks_chosen, FALSE) OR NOT CAST($by_tool AS BOOLEAN)) AS chosen,
        coalesce(p.part, 3) AS part,
        s.exact, s.last_ns, s.until_ns
    FROM unit_requests AS q
    JOIN unit_stops AS s ON s.unit = q.unit
    LEFT JOIN parts AS p ON p.number = q.number
    WHERE s.stopped AND (s.stop_ns IS NULL OR q.start_ns >= s.stop_ns)
)
SELECT
    number, run, agent, model, input_tokens, output_tokens, cost, part, exact, chosen,
    CASE WHEN part = 3 AND end_ns IS NOT NULL THEN
        greatest(
            least(end_ns, coalesce(until_ns, end_ns)) - greatest(
                last_ns,
                coalesce(max(end_ns) OVER (
                    PARTITION BY unit, part ORDER BY end_ns, number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ), last_ns)
            ), 0)
        ELSE 0
    END AS wall_ns
FROM sent
