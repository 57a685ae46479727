-- Every call of the units in which a call occurs twice, with what counting says about it under one counting
-- rule. Thresholds play no part. Of the other units sql/quiet_calls.sql knows all without counting.
--
--   counted  takes part in counting (exemptions aside: they are a matter of thresholds)
--   count    equal results in a row of this series; of a call that is not counted, the count so far
--   streak   `ord` of the first call of that row of equal results
--   judged   what a call is if it comes after a block: 0 avoidable, its result was known already;
--            1 lost; 2 unjudged
--   top      the largest count in its unit, or in a run around it: below that threshold nothing happens to it
--
-- Input `counting`: columns as in sql/counting.sql with `counted`, `judgeable` and `unlike` (its result
-- equals no other). `again`: those of its calls that occur twice (sql/again.sql). `nesting` (run, ancestor).
WITH ordered AS (
    SELECT
        run, seq, unit, ord, series, counted, result, unlike,
        row_number() OVER same_call AS nth,
        lag(result) OVER same_call AS last_result,
        lag(unlike) OVER same_call AS last_unlike,
        -- Whatever is counted, and wherever: a result is known if the run had it before.
        judgeable AND row_number() OVER (PARTITION BY key, result, judgeable ORDER BY seq) > 1 AS known
    FROM again
    WINDOW same_call AS (PARTITION BY series, counted ORDER BY ord)
),
marked AS (
    SELECT
        run, seq, unit, ord, series, known,
        CASE WHEN counted THEN nth END AS nth,
        CASE WHEN counted AND (nth = 1 OR result <> last_result OR unlike OR last_unlike) THEN nth END AS first_nth,
        CASE WHEN counted AND (nth = 1 OR result <> last_result OR unlike OR last_unlike) THEN ord END AS first_ord
    FROM ordered
),
counts AS (
    SELECT
        run, seq, unit, known,
        max(nth) OVER so_far - max(first_nth) OVER so_far + 1 AS count,
        max(first_ord) OVER so_far AS streak
    FROM marked
    WINDOW so_far AS (PARTITION BY series ORDER BY ord ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
),
tops AS (
    SELECT unit, max(count) AS top
    FROM (
        SELECT unit, count FROM counts
        UNION ALL
        SELECT n.run, c.count FROM nesting AS n JOIN counts AS c ON c.unit = n.ancestor
    ) AS of_units
    GROUP BY unit
)
SELECT
    c.run, c.seq, c.turn, c.tool, c.agent, c.service, c.dialect, c.kind, c.outcome, c.seen, c.truncated,
    c.key, c.result, c.start_ns, c.end_ns,
    c.counted,
    CAST(coalesce(n.count, CASE WHEN c.counted THEN 1 ELSE 0 END) AS INTEGER) AS count,
    CAST(coalesce(n.streak, CASE WHEN c.counted THEN c.ord END) AS INTEGER) AS streak,
    CAST(CASE WHEN NOT c.judgeable THEN 2 WHEN n.known THEN 0 ELSE 1 END AS TINYINT) AS judged,
    CAST(coalesce(t.top, 1) AS INTEGER) AS top,
    c.unit, c.ord, c.slot, c.err, c.resets_before, c.successes_before
FROM counting AS c
LEFT JOIN tops AS t ON t.unit = c.unit
LEFT JOIN counts AS n ON n.run = c.run AND n.seq = c.seq
WHERE t.unit IS NOT NULL /* busy */
