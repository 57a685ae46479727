-- The calls as judged, without what suggestions do not look at; `shown` is the filter. Behind sql/verdicts.sql.
SELECT
    run, seq, unit, ord, tool, key, result, outcome, err, counted, count, streak, judged, action,
    CAST((TRUE /* filter */) AS BOOLEAN) AS shown
FROM verdicts
