-- Failed calls (`failed_calls`: run, seq, kind) by the model that asked for them: that of the call's turn.
-- NULL: the turn or its model is not known.
WITH failed AS (
    SELECT n.run_id, f.seq, f.kind FROM failed_calls AS f JOIN run_names AS n ON n.run = f.run
),
turns AS (
    SELECT f.run_id, c.turn, f.kind, count(*) AS calls
    FROM failed AS f
    LEFT JOIN tool_call_rows AS c ON c.run_id = f.run_id AND c.seq = f.seq
    GROUP BY f.run_id, c.turn, f.kind
),
models AS (
    SELECT run_id, turn, min(model) AS model
    FROM llm_request_rows
    WHERE turn IS NOT NULL AND run_id IN (SELECT run_id FROM failed)
    GROUP BY run_id, turn
)
SELECT m.model, t.kind, CAST(sum(t.calls) AS BIGINT) AS calls
FROM turns AS t
LEFT JOIN models AS m ON m.run_id = t.run_id AND m.turn = t.turn
GROUP BY m.model, t.kind
ORDER BY calls DESC, m.model, t.kind
