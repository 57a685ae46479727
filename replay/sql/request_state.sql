-- What tells a file and its state apart from others: a new file under an old name has other first texts.
SELECT
    (SELECT path FROM duckdb_databases() WHERE database_name = current_database()) AS path,
    (SELECT max(value) FROM meta WHERE key = 'version') AS version,
    (SELECT hash FROM contents LIMIT 1) AS some_text,
    count(*), min(start_ns), max(start_ns), max(end_ns)
FROM llm_request_rows
