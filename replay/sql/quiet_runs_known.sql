-- Runs with requests, but without a finished call, among all `runs`.
SELECT count(*) AS runs
FROM runs AS r
WHERE r.asked AND NOT EXISTS (SELECT 1 FROM facts AS f WHERE f.run = r.run)
