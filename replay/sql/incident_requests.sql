-- What the requests cost that a run made during its incidents (`stretches`: incident, run_id,
-- first_ns, last_ns). A sum is NULL unless at least one request recorded the figure.
-- Costs are summed as DECIMAL: a sum of DOUBLE depends on the order of its rows, which is not the same each time.
SELECT
    s.incident,
    count(q.run_id) AS requests,
    CAST(CASE WHEN sum(q.input_tokens) < 9e18 THEN sum(q.input_tokens) END AS BIGINT) AS input_tokens,
    CAST(CASE WHEN sum(q.output_tokens) < 9e18 THEN sum(q.output_tokens) END AS BIGINT) AS output_tokens,
    CAST(sum(CAST(CASE WHEN abs(q.cost) < 1e15 THEN q.cost END AS DECIMAL(38, 15))) AS DOUBLE) AS cost
FROM stretches AS s
JOIN llm_request_rows AS q ON q.run_id = s.run_id AND q.start_ns >= s.first_ns AND q.start_ns < s.last_ns
GROUP BY s.incident
