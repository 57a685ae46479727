-- As sql/again.sql, where a call of a run may lie in several series: in several units, or before and after a reset.
SELECT run, seq, unit, ord, key, series, counted, judgeable, result, unlike
FROM counting
WHERE series IN (SELECT series FROM counting WHERE series IS NOT NULL GROUP BY series HAVING count(*) > 1)
   OR key IN (SELECT key FROM counting WHERE key IS NOT NULL GROUP BY key HAVING count(*) > 1)
