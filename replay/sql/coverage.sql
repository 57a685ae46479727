-- Content coverage of calls per dialect.
SELECT
    dialect,
    count(seq) AS calls,
    count(CASE WHEN seq IS NOT NULL AND fingerprint IS NULL THEN 1 END) AS calls_without_arguments,
    count(CASE WHEN seq IS NOT NULL AND result_hash IS NULL THEN 1 END) AS calls_without_result,
    count(CASE WHEN seq IS NOT NULL AND content_state = 'truncated' THEN 1 END) AS calls_truncated,
    count(CASE WHEN seq IS NOT NULL AND outcome IS NULL THEN 1 END) AS calls_without_outcome,
    count(CASE WHEN seq IS NULL THEN 1 END) AS calls_not_ended,
    count(DISTINCT CASE WHEN recorded_verdict IS NOT NULL THEN run_id END) AS runs_guarded
FROM tool_call_rows
WHERE TRUE /* filter */
GROUP BY dialect
ORDER BY calls DESC, dialect
