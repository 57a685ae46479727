-- What changes whenever the store does. `version` grows with every commit; the rest tells a new file
-- under an old name from the old one.
SELECT
    (SELECT path FROM duckdb_databases() WHERE database_name = current_database()) AS path,
    (SELECT max(value) FROM meta WHERE key = 'version') AS version,
    (SELECT trace_id FROM tool_call_rows LIMIT 1) AS some_trace,
    count(*), min(start_ns), max(start_ns), max(end_ns)
FROM tool_call_rows
