-- One request for each history in the table `wanted_histories` (history, messages): the first that carried it, of
-- those that started from $first_ns to $last_ns (so that little of a big store is read).
-- In the order of their conversations, so that each history mostly goes on with the one before.
WITH carried AS (
    SELECT
        hash(q.input_parts) AS history, q.input_parts, q.run_id, q.agent_name, q.start_ns,
        row_number() OVER (
            PARTITION BY hash(q.input_parts), len(q.input_parts) ORDER BY q.start_ns, q.trace_id, q.span_id
        ) AS nth
    FROM llm_request_rows AS q
    JOIN wanted_histories AS w ON w.history = hash(q.input_parts) AND w.messages = len(q.input_parts)
    WHERE q.status <> 'error' AND q.start_ns BETWEEN $first_ns AND $last_ns
)
SELECT history, input_parts
FROM carried
WHERE nth = 1
ORDER BY run_id, agent_name, start_ns, history
