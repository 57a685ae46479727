-- The requests that succeeded at the times in `$times`, each with its history (see `request_passed`).
SELECT
    hash(input_parts) AS history, len(input_parts) AS messages, provider, model, start_ns, trace_id, span_id
FROM llm_request_rows
WHERE status <> 'error' AND content_state <> 'truncated' AND list_contains($times, start_ns)
    AND TRUE /* filter */
ORDER BY start_ns, trace_id, span_id
