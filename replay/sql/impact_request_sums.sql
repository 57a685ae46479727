-- Requests after a block (`sent_requests`, sql/impact_after.sql) under the filter, and what they used.
SELECT
    part, exact,
    count(*) AS requests,
    count(CASE WHEN input_tokens IS NOT NULL AND output_tokens IS NOT NULL THEN 1 END) AS requests_with_usage,
    CAST(CASE WHEN sum(input_tokens) < 9e18 THEN sum(input_tokens) END AS BIGINT) AS input_tokens,
    CAST(CASE WHEN sum(output_tokens) < 9e18 THEN sum(output_tokens) END AS BIGINT) AS output_tokens,
    count(cost) AS requests_with_cost,
    CAST(sum(CAST(cost AS DECIMAL(38, 15))) AS DOUBLE) AS cost,  -- a sum of DOUBLE depends on the order of its rows
    CAST(least(sum(wall_ns), 9000000000000000000) AS BIGINT) AS wall_ns
FROM sent_requests
WHERE chosen
GROUP BY part, exact
