-- Failed calls (`failed_turns`: run, turn, kind, calls) by the model that asked for them: that of the call's turn.
-- NULL: the turn or its model is not known.
WITH turns AS (
    SELECT n.run_id, f.turn, f.kind, f.calls FROM failed_turns AS f JOIN run_names AS n ON n.run = f.run
),
models AS (
    SELECT q.run_id, q.turn, min(q.model) AS model
    FROM (SELECT DISTINCT run_id, turn FROM turns) AS t
    JOIN llm_request_rows AS q ON q.run_id = t.run_id AND q.turn = t.turn
    GROUP BY q.run_id, q.turn
)
SELECT m.model, t.kind, CAST(sum(t.calls) AS BIGINT) AS calls
FROM turns AS t
LEFT JOIN models AS m ON m.run_id = t.run_id AND m.turn = t.turn
GROUP BY m.model, t.kind
ORDER BY calls DESC, m.model, t.kind
