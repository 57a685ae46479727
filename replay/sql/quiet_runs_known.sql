-- Runs with requests, but without a finished call, among all `runs`.
SELECT
    (SELECT count(*) FROM runs WHERE asked)
    - (SELECT count(*) FROM (SELECT DISTINCT run FROM facts) AS f JOIN runs AS r ON r.run = f.run WHERE r.asked) AS runs
