-- Calls under the filter that a policy interferes with, with the model that asked for them; `kind` of failed calls.
SELECT
    c.run, c.seq, c.tool, c.agent, c.outcome, c.action, c.judged, c.exact, c.tool_ns, c.wall_ns, c.number,
    q.model,
    CASE WHEN c.outcome IN (2, 3) THEN c.kind END AS kind
FROM asked_calls AS c
LEFT JOIN unit_requests AS q ON q.number = c.number
WHERE c.chosen
