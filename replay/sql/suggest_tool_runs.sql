-- Runs in which a tool was called more than once, from `judged`.
SELECT run FROM judged WHERE tool = $tool GROUP BY run HAVING count(*) > 1 ORDER BY run
