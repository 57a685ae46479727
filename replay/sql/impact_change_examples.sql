-- The first $limit calls of each change, each of another run as far as there are enough.
SELECT run, seq, before, after, exact, judged
FROM (
    SELECT *, row_number() OVER (PARTITION BY before, after ORDER BY nth, run, seq) AS place
    FROM (
        SELECT *, row_number() OVER (PARTITION BY before, after, run ORDER BY seq) AS nth
        FROM changed_calls
    ) AS numbered
) AS placed
WHERE place <= $limit
ORDER BY before, after, place
