-- The first $limit calls of each change, each of another run as far as there are enough; lost
-- calls before others.
SELECT run, seq, before, after, exact, judged
FROM (
    SELECT
        n.*,
        row_number() OVER (
            PARTITION BY n.before, n.after ORDER BY n.nth, n.lost DESC, r.started, r.run_id, n.seq
        ) AS place
    FROM (
        SELECT *, row_number() OVER (PARTITION BY before, after, run ORDER BY lost DESC, seq) AS nth
        FROM (SELECT *, CASE WHEN judged = 1 THEN 1 ELSE 0 END AS lost FROM changed_calls) AS weighed
    ) AS n
    JOIN runs AS r ON r.run = n.run
) AS placed
WHERE place <= $limit
ORDER BY before, after, place
