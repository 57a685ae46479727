-- Repeated calls by tool or agent. $by: 'tool' or 'agent'.
SELECT
    CASE $by WHEN 'tool' THEN tool ELSE agent END AS name,
    count(*) AS calls,
    count(CASE WHEN counted AND NOT exempt AND count >= 2 THEN 1 END) AS repeated_calls,
    count(CASE WHEN action = 1 THEN 1 END) AS calls_nudged,
    count(CASE WHEN action = 2 THEN 1 END) AS calls_blocked
FROM verdicts
WHERE TRUE /* filter */
GROUP BY 1
