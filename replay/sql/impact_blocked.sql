-- The blocked call of every unit with a call in `shown_calls`: unit, [run, seq].
SELECT unit, [run, seq] AS blocked
FROM noted_calls
WHERE action = 2 AND unit IN (SELECT unit FROM shown_calls)
