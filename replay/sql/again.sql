-- The calls of `counting` that occur twice, of runs $first to $last: the others need no window, which spares most of
-- the sorting. Where units are runs and nothing resets, the same series is the same call.
SELECT run, seq, unit, ord, key, series, counted, judgeable, result, unlike
FROM counting
WHERE run BETWEEN $first AND $last
  AND series IN (
    SELECT series FROM counting
    WHERE run BETWEEN $first AND $last AND series IS NOT NULL
    GROUP BY series
    HAVING count(*) > 1
)
