-- Units and turns whose requests have to be looked at: of a unit that was stopped, or in which a turn is not known,
-- all of them (`turn` NULL).
SELECT DISTINCT c.unit, CASE WHEN s.stopped OR t.unit IS NOT NULL THEN NULL ELSE c.turn END AS turn
FROM noted_calls AS c
JOIN unit_stops AS s ON s.unit = c.unit
LEFT JOIN (SELECT DISTINCT unit FROM noted_calls WHERE turn IS NULL AND action IN (1, 2, 4)) AS t ON t.unit = c.unit
WHERE c.action IN (1, 2, 4)
