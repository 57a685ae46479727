-- As sql/again.sql, where a call of a run may lie in several series: in several units, or before and after a reset.
SELECT run, seq, unit, ord, key, series, counted, judgeable, result, unlike
FROM counting
WHERE twice
