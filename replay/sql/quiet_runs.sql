-- Runs with requests, but without a finished call.
SELECT count(DISTINCT q.run_id) AS runs
FROM llm_request_rows AS q
WHERE TRUE /* filter */
  AND NOT EXISTS (SELECT 1 FROM tool_call_rows AS c WHERE c.run_id = q.run_id AND c.seq IS NOT NULL)
