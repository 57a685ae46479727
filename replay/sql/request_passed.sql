-- Different histories among the requests that succeeded, by provider and model, with the number of requests.
-- `history` is the hash of the keys of the messages (DuckDB's own: to fetch the lists would be millions of numbers). Requests without a whole recording are counted apart.
SELECT
    CASE WHEN input_parts IS NULL OR content_state = 'truncated' THEN NULL ELSE hash(input_parts) END AS history,
    CASE WHEN input_parts IS NULL OR content_state = 'truncated' THEN NULL ELSE len(input_parts) END AS messages,
    provider, model,
    count(*) AS requests,
    min(start_ns) AS first_ns
FROM llm_request_rows
WHERE status <> 'error' AND TRUE /* filter */
GROUP BY ALL
