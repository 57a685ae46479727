-- The hash that a policy compares, of every call in `changed_texts` (tool_name, result, result_content, hash).
SELECT r.run, c.seq, m.hash AS result
FROM tool_call_rows AS c
JOIN changed_texts AS m
    ON m.tool_name = c.tool_name
    AND m.result IS NOT DISTINCT FROM c.result
    AND m.result_content IS NOT DISTINCT FROM c.result_content
JOIN run_names AS r ON r.run_id = c.run_id
WHERE c.seq IS NOT NULL AND TRUE /* filter */
