-- Requests by dialect, and how many of them were recorded with their messages. To ask every row whether it has
-- messages reads every list of them (1 M requests: 0.2 s); to look for those that have none does not.
WITH parts AS (
    SELECT dialect, status = 'error' AS failed, content_state = 'truncated' AS truncated, count(*) AS requests
    FROM llm_request_rows
    WHERE TRUE /* filter */
    GROUP BY ALL
),
without AS (
    SELECT dialect, status = 'error' AS failed, content_state = 'truncated' AS truncated, count(*) AS requests
    FROM llm_request_rows
    WHERE input_parts IS NULL AND (TRUE /* filter */)
    GROUP BY ALL
),
counts AS (
    SELECT p.dialect, p.failed, p.truncated, p.requests, coalesce(w.requests, 0) AS without_messages
    FROM parts AS p
    LEFT JOIN without AS w ON w.dialect = p.dialect AND w.failed = p.failed AND w.truncated = p.truncated
)
SELECT
    dialect,
    CAST(sum(requests) AS BIGINT) AS requests,
    CAST(sum(without_messages) AS BIGINT) AS without_messages,
    CAST(sum(CASE WHEN truncated THEN requests - without_messages ELSE 0 END) AS BIGINT) AS truncated,
    CAST(sum(CASE WHEN failed THEN requests ELSE 0 END) AS BIGINT) AS failed,
    CAST(sum(CASE WHEN failed THEN without_messages ELSE 0 END) AS BIGINT) AS failed_without_messages,
    CAST(sum(CASE WHEN failed AND truncated THEN requests - without_messages ELSE 0 END) AS BIGINT)
        AS failed_truncated
FROM counts
GROUP BY dialect
ORDER BY requests DESC, dialect
