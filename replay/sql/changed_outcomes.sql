-- What calls came to by a policy's rules, of every call in `ruled_texts` (as sql/ruled_texts.sql has it,
-- with ruled_outcome and ruled_kind, numbers).
SELECT n.run, c.seq, r.ruled_outcome AS outcome, r.ruled_kind AS kind
FROM tool_call_rows AS c
JOIN ruled_texts AS r
    ON r.tool_name = c.tool_name
    AND r.outcome = c.outcome
    AND r.error_kind IS NOT DISTINCT FROM c.error_kind
    AND r.error_type IS NOT DISTINCT FROM c.error_type
    AND r.http_status IS NOT DISTINCT FROM c.http_status
    AND r.result IS NOT DISTINCT FROM c.result
    AND r.result_content IS NOT DISTINCT FROM c.result_content
    AND r.error_message IS NOT DISTINCT FROM c.error_message
    AND r.error_message_content IS NOT DISTINCT FROM c.error_message_content
JOIN run_names AS n ON n.run_id = c.run_id
WHERE c.seq IS NOT NULL AND TRUE /* filter */
