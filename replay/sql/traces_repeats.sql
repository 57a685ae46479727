-- What the verdicts say of each run in which a call was repeated or the guard stepped in.
SELECT
    run,
    count(CASE WHEN counted AND NOT exempt AND count >= 2 THEN 1 END) AS repeats,
    count(CASE WHEN action = 1 THEN 1 END) AS nudged,
    count(CASE WHEN action = 2 THEN 1 END) AS blocked,
    count(CASE WHEN action = 4 THEN 1 END) AS after_block
FROM verdicts
WHERE TRUE /* filter */
GROUP BY run
HAVING repeats > 0 OR nudged > 0 OR blocked > 0 OR after_block > 0
