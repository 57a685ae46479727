-- Blocked runs that went on to something new. Behind sql/verdicts.sql.
SELECT count(DISTINCT run) AS runs FROM verdicts WHERE action = 4 AND judged = 1 AND TRUE /* filter */
