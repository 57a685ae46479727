-- The calls that may be nudged or blocked, of the units of labelled incidents and of the runs around them: all
-- that sql/label_scores.sql needs of the calls. $lowest: the lowest threshold of any tool, for any pair of defaults.
--
-- Inputs: `calls` and `nesting` (sql/verdicts.sql), `labelled_calls` (incident, run, seq).
WITH own_units AS (
    SELECT DISTINCT unit FROM calls WHERE run IN (SELECT run FROM labelled_calls)
),
units AS (
    SELECT unit FROM own_units
    UNION
    SELECT n.ancestor FROM nesting AS n JOIN own_units AS u ON u.unit = n.run
)
SELECT run, seq, unit, ord, tool, err, count, seen, end_ns
FROM calls
WHERE counted AND count >= $lowest AND unit IN (SELECT unit FROM units)
