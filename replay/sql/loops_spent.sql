-- What the requests cost that runs made during `stretches` (run_id, first_ns, last_ns), which do not overlap
-- within a run: each request is counted once. A sum is NULL unless at least one request recorded the figure.
-- Costs are summed as in sql/incident_requests.sql.
SELECT
    count(*) AS requests,
    count(CASE WHEN q.input_tokens IS NOT NULL AND q.output_tokens IS NOT NULL THEN 1 END) AS requests_with_usage,
    CAST(CASE WHEN sum(q.input_tokens) < 9e18 THEN sum(q.input_tokens) END AS BIGINT) AS input_tokens,
    CAST(CASE WHEN sum(q.output_tokens) < 9e18 THEN sum(q.output_tokens) END AS BIGINT) AS output_tokens,
    count(q.cost) AS requests_with_cost,
    CAST(sum(CAST(CASE WHEN abs(q.cost) < 1e15 THEN q.cost END AS DECIMAL(38, 15))) AS DOUBLE) AS cost
FROM stretches AS s
JOIN llm_request_rows AS q ON q.run_id = s.run_id AND q.start_ns >= s.first_ns AND q.start_ns < s.last_ns
