-- When the first and the last of the calls in `wanted_calls` (run, seq) began; NULL where there is none.
SELECT min(f.start_ns) AS since, max(f.start_ns) AS until
FROM facts AS f
JOIN wanted_calls AS w ON w.run = f.run AND w.seq = f.seq
