-- Calls of one fingerprint whose arguments are written in more than one way (`rule_runs`: run_id): another
-- order of keys, other blanks, other metadata. Some rules tell these apart.
SELECT c.scope_key AS key
FROM tool_call_rows AS c
JOIN rule_runs AS r ON r.run_id = c.run_id
WHERE c.seq IS NOT NULL AND c.scope_key IS NOT NULL
GROUP BY c.scope_key
HAVING min(c.arguments) <> max(c.arguments)
    OR min(c.arguments_content) <> max(c.arguments_content)
    OR (count(c.arguments) > 0 AND count(c.arguments_content) > 0)
