-- The calls of `counting` outside `busy_units` (unit), as sql/calls.sql has the others: where no call occurs
-- twice, every count is 1 and no result was known before.
SELECT
    c.run, c.seq, c.turn, c.tool, c.agent, c.service, c.dialect, c.kind, c.outcome, c.seen, c.truncated,
    c.key, c.result, c.start_ns, c.end_ns,
    c.counted,
    CASE WHEN c.counted THEN 1 ELSE 0 END AS count,
    CASE WHEN c.counted THEN c.ord END AS streak,
    CAST(CASE WHEN c.judgeable THEN 1 ELSE 2 END AS TINYINT) AS judged,
    1 AS top,
    c.unit, c.ord, c.slot, c.err, c.resets_before, c.successes_before
FROM counting AS c
WHERE NOT EXISTS (SELECT 1 FROM busy_units AS b WHERE b.unit = c.unit)
