-- What one failed call of a store said.
SELECT c.error_kind, coalesce(c.error_message, m.text, c.result, r.text) AS text
FROM tool_call_rows AS c
LEFT JOIN contents AS m ON m.hash = c.error_message_content
LEFT JOIN contents AS r ON r.hash = c.result_content
WHERE c.run_id = $run_id AND c.seq = $seq
