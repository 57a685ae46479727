-- Every fact with what counting says about it, under one counting rule. Thresholds play no part.
--
--   counted  takes part in counting (exemptions aside: they are a matter of thresholds)
--   count    equal results in a row of this key; of a call that is not counted, the count so far
--   streak   seq of the first call of that row of equal results
--   judged   what a call is if it comes after a block: 0 avoidable, its result was known already;
--            1 lost; 2 unjudged
--
-- Input `counting`: facts plus `counted` and `unlike` (its result equals no other). A key with one
-- row needs no window; that spares most of the sort.
WITH repeated AS (
    SELECT key FROM counting WHERE key IS NOT NULL GROUP BY key HAVING count(*) > 1
),
ordered AS (
    SELECT
        c.run, c.seq, c.key, c.counted, c.result, c.unlike,
        row_number() OVER same_key AS nth,
        lag(c.result) OVER same_key AS last_result,
        lag(c.unlike) OVER same_key AS last_unlike
    FROM counting AS c
    JOIN repeated AS r ON r.key = c.key
    WINDOW same_key AS (PARTITION BY c.key, c.counted ORDER BY c.seq)
),
marked AS (
    SELECT
        run, seq, key, counted,
        CASE WHEN counted THEN nth END AS nth,
        CASE WHEN counted AND (nth = 1 OR result <> last_result OR unlike OR last_unlike) THEN nth END AS first_nth,
        CASE WHEN counted AND (nth = 1 OR result <> last_result OR unlike OR last_unlike) THEN seq END AS first_seq
    FROM ordered
),
counts AS (
    SELECT
        run, seq,
        max(nth) OVER so_far - max(first_nth) OVER so_far + 1 AS count,
        max(first_seq) OVER so_far AS streak
    FROM marked
    WINDOW so_far AS (PARTITION BY key ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
),
known AS (
    SELECT
        c.run, c.seq,
        row_number() OVER (PARTITION BY c.key, c.result ORDER BY c.seq) > 1 AS known
    FROM counting AS c
    JOIN repeated AS r ON r.key = c.key
    WHERE c.judgeable
)
SELECT
    c.run, c.seq, c.turn, c.tool, c.agent, c.service, c.dialect, c.kind, c.outcome, c.seen, c.truncated,
    c.key, c.result, c.start_ns, c.end_ns, c.counted,
    CAST(coalesce(n.count, CASE WHEN c.counted THEN 1 ELSE 0 END) AS INTEGER) AS count,
    CAST(coalesce(n.streak, CASE WHEN c.counted THEN c.seq END) AS INTEGER) AS streak,
    CAST(CASE WHEN NOT c.judgeable THEN 2 WHEN coalesce(k.known, FALSE) THEN 0 ELSE 1 END AS TINYINT) AS judged
FROM counting AS c
LEFT JOIN counts AS n ON n.run = c.run AND n.seq = c.seq
LEFT JOIN known AS k ON k.run = c.run AND k.seq = c.seq
