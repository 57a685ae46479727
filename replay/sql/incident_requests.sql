-- What the requests cost that a run made during its incidents (`stretches`: incident, run_id,
-- first_ns, last_ns). A sum is NULL unless at least one request recorded the figure.
SELECT
    s.incident,
    count(q.run_id) AS requests,
    CAST(CASE WHEN sum(q.input_tokens) < 9e18 THEN sum(q.input_tokens) END AS BIGINT) AS input_tokens,
    CAST(CASE WHEN sum(q.output_tokens) < 9e18 THEN sum(q.output_tokens) END AS BIGINT) AS output_tokens,
    sum(CASE WHEN abs(q.cost) < 1e15 THEN q.cost END) AS cost
FROM stretches AS s
JOIN llm_request_rows AS q ON q.run_id = s.run_id AND q.start_ns >= s.first_ns AND q.start_ns < s.last_ns
GROUP BY s.incident
