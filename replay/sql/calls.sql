-- Every fact with what counting says about it, under one counting rule. Thresholds play no part.
--
--   counted  takes part in counting (exemptions aside: they are a matter of thresholds)
--   count    equal results in a row of this series; of a call that is not counted, the count so far
--   streak   `ord` of the first call of that row of equal results
--   judged   what a call is if it comes after a block: 0 avoidable, its result was known already;
--            1 lost; 2 unjudged
--
-- Input `counting`: columns as in sql/counting.sql with `counted`, `judgeable` and `unlike` (its result
-- equals no other). A series with one row needs no window; that spares most of the sort.
WITH repeated AS (
    SELECT series FROM counting WHERE series IS NOT NULL GROUP BY series HAVING count(*) > 1
),
ordered AS (
    SELECT
        c.run, c.seq, c.ord, c.series, c.counted, c.result, c.unlike,
        row_number() OVER same_call AS nth,
        lag(c.result) OVER same_call AS last_result,
        lag(c.unlike) OVER same_call AS last_unlike
    FROM counting AS c
    JOIN repeated AS r ON r.series = c.series
    WINDOW same_call AS (PARTITION BY c.series, c.counted ORDER BY c.ord)
),
marked AS (
    SELECT
        run, seq, ord, series, counted,
        CASE WHEN counted THEN nth END AS nth,
        CASE WHEN counted AND (nth = 1 OR result <> last_result OR unlike OR last_unlike) THEN nth END AS first_nth,
        CASE WHEN counted AND (nth = 1 OR result <> last_result OR unlike OR last_unlike) THEN ord END AS first_ord
    FROM ordered
),
counts AS (
    SELECT
        run, seq,
        max(nth) OVER so_far - max(first_nth) OVER so_far + 1 AS count,
        max(first_ord) OVER so_far AS streak
    FROM marked
    WINDOW so_far AS (PARTITION BY series ORDER BY ord ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
),
-- Whatever is counted, and wherever: a result is known if the run had it before.
known AS (
    SELECT run, seq, row_number() OVER (PARTITION BY key, result ORDER BY seq) > 1 AS known
    FROM counting
    WHERE judgeable AND key IN (SELECT key FROM counting WHERE judgeable GROUP BY key HAVING count(*) > 1)
)
SELECT
    c.run, c.seq, c.turn, c.tool, c.agent, c.service, c.dialect, c.kind, c.outcome, c.seen, c.truncated,
    c.unit, c.ord, c.key, c.slot, c.err, c.resets_before, c.successes_before, c.result, c.start_ns, c.end_ns,
    c.counted,
    CAST(coalesce(n.count, CASE WHEN c.counted THEN 1 ELSE 0 END) AS INTEGER) AS count,
    CAST(coalesce(n.streak, CASE WHEN c.counted THEN c.ord END) AS INTEGER) AS streak,
    CAST(CASE WHEN NOT c.judgeable THEN 2 WHEN coalesce(k.known, FALSE) THEN 0 ELSE 1 END AS TINYINT) AS judged
FROM counting AS c
LEFT JOIN counts AS n ON n.run = c.run AND n.seq = c.seq
LEFT JOIN known AS k ON k.run = c.run AND k.seq = c.seq
