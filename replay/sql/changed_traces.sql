-- Traces that a fold changed after the one numbered $serial, and where their rows lie.
SELECT trace_id, least(first_start_ns, first_derived_ns) AS first_ns, greatest(last_start_ns, last_derived_ns) AS last_ns
FROM trace_rows
WHERE changed_in > $serial
