-- What changes whenever the store does. `version` grows with every commit, `serial` with every fold, `removals`
-- where traces were removed; `store_id` tells a new file under an old name from the old one.
SELECT
    (SELECT path FROM duckdb_databases() WHERE database_name = current_database()) AS path,
    max(CASE WHEN key = 'store_id' THEN value END) AS store_id,
    max(CASE WHEN key = 'removals' THEN value END) AS removals,
    CAST(max(CASE WHEN key = 'version' THEN value END) AS BIGINT) AS version,
    CAST(max(CASE WHEN key = 'fold_serial' THEN value END) AS BIGINT) AS serial,
    (SELECT count(*) FROM tool_call_rows) AS calls,
    (SELECT count(*) FROM llm_request_rows) AS requests
FROM meta
