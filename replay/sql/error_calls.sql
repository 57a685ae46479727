-- Failed calls by their place, for what only the store knows of them.
SELECT run, seq, kind FROM verdicts WHERE outcome IN (2, 3) AND TRUE /* filter */
