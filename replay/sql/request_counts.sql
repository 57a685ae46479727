-- Requests and failed requests by HTTP status.
SELECT
    count(*) AS requests,
    count(CASE WHEN status = 'error' THEN 1 END) AS failed,
    count(CASE WHEN status = 'error' AND input_parts IS NULL THEN 1 END) AS without_messages,
    http_status
FROM llm_request_rows
WHERE TRUE /* filter */
GROUP BY http_status
ORDER BY failed DESC, http_status
