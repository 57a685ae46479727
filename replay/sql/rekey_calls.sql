-- Calls whose fingerprint changes under other metadata keys (`changed_prints`: fingerprint, changed).
SELECT r.run, c.seq, c.run_id, c.agent_name, p.changed
FROM tool_call_rows AS c
JOIN changed_prints AS p ON p.fingerprint = c.fingerprint
JOIN run_names AS r ON r.run_id = c.run_id
WHERE c.seq IS NOT NULL
