-- The requests of units in which a policy interferes (`unit_names`: unit, unit_name, whole), numbered in the order
-- in which they ended, whenever their runs came in: all of them (`whole`), or those of the turns in `wanted_turns` (unit, turn; there
-- the unit is the run). `chosen`: under the filter.
SELECT
    row_number() OVER (ORDER BY q.end_ns, q.start_ns, q.trace_id, q.span_id) AS number,
    u.unit,
    r.run,
    q.turn,
    q.agent_name,
    q.model,
    q.input_tokens,
    q.output_tokens,
    CASE WHEN abs(q.cost) < 1e15 THEN q.cost END AS cost,
    q.start_ns,
    q.end_ns,
    CASE WHEN TRUE /* filter */ THEN TRUE ELSE FALSE END AS chosen
FROM llm_request_rows AS q
JOIN unit_names AS u ON u.unit_name = CASE $scope
    WHEN 'run' THEN q.run_id
    WHEN 'trace' THEN concat('t', q.trace_id)
    ELSE CASE WHEN q.session_id IS NULL THEN concat('r', q.run_id) ELSE concat('s', q.session_id) END
END
LEFT JOIN wanted_turns AS w ON w.unit = u.unit AND w.turn = q.turn
JOIN run_names AS r ON r.run_id = q.run_id
WHERE u.whole OR w.unit IS NOT NULL
