-- How much content the calls and requests of each dialect carry.

SELECT dialect,
       sum(calls)::BIGINT AS calls,
       sum(no_arguments)::BIGINT AS calls_without_arguments,
       sum(no_result)::BIGINT AS calls_without_result,
       sum(cut)::BIGINT AS calls_truncated,
       sum(requests)::BIGINT AS requests,
       sum(no_messages)::BIGINT AS requests_without_messages
FROM (
    SELECT dialect,
           count(*) AS calls,
           count(*) FILTER (arguments IS NULL AND arguments_content IS NULL) AS no_arguments,
           count(*) FILTER (end_ns IS NOT NULL AND result IS NULL AND result_content IS NULL) AS no_result,
           count(*) FILTER (content_state = 'truncated') AS cut,
           0 AS requests,
           0 AS no_messages
    FROM tool_call_rows
    GROUP BY dialect
    UNION ALL
    SELECT dialect, 0, 0, 0, 0, count(*), count(*) FILTER (input_parts IS NULL)
    FROM llm_request_rows
    GROUP BY dialect
)
GROUP BY dialect
ORDER BY dialect;
