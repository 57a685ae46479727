-- Requests by dialect, and how many of them were recorded with their messages.
SELECT
    dialect,
    count(*) AS requests,
    count(CASE WHEN input_parts IS NULL THEN 1 END) AS without_messages,
    count(CASE WHEN input_parts IS NOT NULL AND content_state = 'truncated' THEN 1 END) AS truncated,
    count(CASE WHEN status = 'error' THEN 1 END) AS failed,
    count(CASE WHEN status = 'error' AND input_parts IS NULL THEN 1 END) AS failed_without_messages,
    count(CASE WHEN status = 'error' AND input_parts IS NOT NULL AND content_state = 'truncated' THEN 1 END)
        AS failed_truncated
FROM llm_request_rows
WHERE TRUE /* filter */
GROUP BY dialect
ORDER BY requests DESC, dialect
