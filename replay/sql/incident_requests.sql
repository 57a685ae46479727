-- What the requests cost that a run made during its incidents (`stretches`: incident, run_id,
-- first_ns, last_ns). A sum is NULL unless at least one request recorded the figure.
SELECT
    s.incident,
    count(q.run_id) AS requests,
    CAST(sum(q.input_tokens) AS BIGINT) AS input_tokens,
    CAST(sum(q.output_tokens) AS BIGINT) AS output_tokens,
    sum(q.cost) AS cost
FROM stretches AS s
JOIN llm_request_rows AS q ON q.run_id = s.run_id AND q.start_ns >= s.first_ns AND q.start_ns < s.last_ns
GROUP BY s.incident
