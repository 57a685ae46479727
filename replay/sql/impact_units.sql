-- The traces or sessions behind units (`unit_calls`: unit, run, seq of one of its calls), named as in units.sql.
SELECT
    u.unit,
    CASE
        WHEN $scope = 'trace' THEN concat('t', c.trace_id)
        WHEN c.session_id IS NULL THEN concat('r', c.run_id)
        ELSE concat('s', c.session_id)
    END AS unit_name,
    TRUE AS whole
FROM unit_calls AS u
JOIN run_names AS r ON r.run = u.run
JOIN tool_call_rows AS c ON c.run_id = r.run_id AND c.seq = u.seq
