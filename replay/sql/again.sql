-- The calls of `counting` that occur twice: the others need no window, which spares most of the sorting. Where
-- units are runs and nothing resets, the same series is the same call.
SELECT run, seq, unit, ord, key, series, counted, judgeable, result, unlike
FROM counting
WHERE series IN (SELECT series FROM counting WHERE series IS NOT NULL GROUP BY series HAVING count(*) > 1)
