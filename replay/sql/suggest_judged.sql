-- The calls as judged, without what suggestions do not look at; `shown` is the filter. Behind sql/verdicts.sql. Runs
-- and tools have other numbers here, which do not depend on when they came in (`run_places`, `tool_places`).
, seen_calls AS (
    SELECT *, CAST((TRUE /* filter */) AS BOOLEAN) AS shown FROM verdicts
)
SELECT
    r.place AS run, s.seq, s.unit, s.ord, t.place AS tool, s.key, s.result, s.outcome, s.err, s.counted, s.count,
    s.streak, s.judged, s.action, s.shown
FROM seen_calls AS s
JOIN run_places AS r ON r.run = s.run
JOIN tool_places AS t ON t.tool = s.tool
