-- Arguments and results of the successes of one tool in some runs, in order, of a store. Texts of more than
-- $limit characters are left out.
WITH chosen AS (
    SELECT run_id, agent_name, seq, scope_key, result_hash, arguments, arguments_content, result, result_content
    FROM tool_call_rows
    WHERE tool_name = $tool AND outcome = 'success' AND seq IS NOT NULL AND run_id IN (SELECT unnest($runs))
    ORDER BY run_id, seq
    LIMIT $most
),
texts AS (
    SELECT hash, text
    FROM contents
    WHERE length(text) <= $limit
      AND hash IN (SELECT arguments_content FROM chosen WHERE NOT $results UNION SELECT result_content FROM chosen WHERE $results)
)
SELECT
    c.run_id, c.agent_name, c.seq, c.scope_key, c.result_hash,
    CASE WHEN $results THEN coalesce(c.result, t.text) ELSE coalesce(c.arguments, t.text) END AS text
FROM chosen AS c
LEFT JOIN texts AS t ON t.hash = CASE WHEN $results THEN c.result_content ELSE c.arguments_content END
ORDER BY c.run_id, c.seq
