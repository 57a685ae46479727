-- The public views: whole texts under the documented names. Made again at every migration.
-- Rows without a text in `contents` take the upper half of each UNION, which joins nothing.

-- A JSON text of a base table with its marks filled in (see schema.sql, span_rows).
CREATE OR REPLACE MACRO whole_text(template, keys) AS (
    SELECT string_agg(
        CASE WHEN p.i = 1 THEN p.piece
             WHEN p.piece[1] = 's' THEN (to_json(c.text)::VARCHAR)[2:-2] || p.piece[2:]
             ELSE c.text || p.piece[2:] END, '' ORDER BY p.i)
    FROM (SELECT unnest(string_split(template, chr(1))) AS piece,
                 generate_subscripts(string_split(template, chr(1)), 1) AS i) p
    LEFT JOIN contents c ON c.hash = keys[p.i - 1]
);

CREATE OR REPLACE VIEW spans AS
SELECT trace_id, span_id, parent_span_id, name, kind, service_name, started_at, ended_at, start_ns, end_ns,
       status_code, status_message, attributes, coalesce(events, '[]') AS events, coalesce(links, '[]') AS links,
       resource, scope_name, scope_version, dropped_attributes, dropped_events, received_ns
FROM span_rows
WHERE attribute_parts IS NULL AND event_parts IS NULL
UNION ALL
SELECT trace_id, span_id, parent_span_id, name, kind, service_name, started_at, ended_at, start_ns, end_ns,
       status_code, status_message,
       CASE WHEN attribute_parts IS NULL THEN attributes ELSE whole_text(attributes, attribute_parts) END,
       CASE WHEN event_parts IS NULL THEN coalesce(events, '[]') ELSE whole_text(events, event_parts) END,
       coalesce(links, '[]'),
       resource, scope_name, scope_version, dropped_attributes, dropped_events, received_ns
FROM span_rows
WHERE attribute_parts IS NOT NULL OR event_parts IS NOT NULL;

CREATE OR REPLACE VIEW logs AS
SELECT trace_id, span_id, logged_at, time_ns, event_name, severity, service_name, body, attributes, resource,
       scope_name, scope_version, dropped_attributes, received_ns
FROM log_rows
WHERE body_parts IS NULL AND attribute_parts IS NULL
UNION ALL
SELECT trace_id, span_id, logged_at, time_ns, event_name, severity, service_name,
       CASE WHEN body_parts IS NULL THEN body ELSE whole_text(body, body_parts) END,
       CASE WHEN attribute_parts IS NULL THEN attributes ELSE whole_text(attributes, attribute_parts) END,
       resource, scope_name, scope_version, dropped_attributes, received_ns
FROM log_rows
WHERE body_parts IS NOT NULL OR attribute_parts IS NOT NULL;

CREATE OR REPLACE VIEW tool_calls AS
SELECT trace_id, span_id, position, run_id, parent_run_id, run_source, session_id, service_name, agent_name, seq, turn,
       tool_name, call_id, arguments, result, outcome, error_kind, error_type, error_message, http_status,
       started_at, ended_at, start_ns, end_ns, fingerprint, fingerprint_version, result_hash, scope_key,
       content_state, recorded_verdict, dialect
FROM tool_call_rows
WHERE arguments_content IS NULL AND result_content IS NULL AND error_message_content IS NULL
UNION ALL
SELECT trace_id, span_id, position, run_id, parent_run_id, run_source, session_id, service_name, agent_name, seq, turn,
       tool_name, call_id, coalesce(arguments, a.text), coalesce(result, r.text),
       outcome, error_kind, error_type, coalesce(error_message, m.text), http_status,
       started_at, ended_at, start_ns, end_ns, fingerprint, fingerprint_version, result_hash, scope_key,
       content_state, recorded_verdict, dialect
FROM tool_call_rows
LEFT JOIN contents a ON a.hash = arguments_content
LEFT JOIN contents r ON r.hash = result_content
LEFT JOIN contents m ON m.hash = error_message_content
WHERE arguments_content IS NOT NULL OR result_content IS NOT NULL OR error_message_content IS NOT NULL;

-- input_messages and output_messages: a list with one JSON text per message, NULL where not recorded.
CREATE OR REPLACE MACRO whole_messages(keys) AS (
    SELECT coalesce(list(c.text ORDER BY p.i), [])
    FROM (SELECT unnest(keys) AS hash, generate_subscripts(keys, 1) AS i) p
    LEFT JOIN contents c ON c.hash = p.hash
);

CREATE OR REPLACE VIEW llm_requests AS
SELECT trace_id, span_id, run_id, run_source, session_id, service_name, agent_name, turn, provider, model,
       CASE WHEN input_parts IS NOT NULL THEN whole_messages(input_parts) END AS input_messages,
       CASE WHEN output_parts IS NOT NULL THEN whole_messages(output_parts) END AS output_messages,
       input_tokens, output_tokens, cost, status, http_status, error_type,
       coalesce(error_text, e.text) AS error_text, error_class, content_state,
       started_at, ended_at, start_ns, end_ns, dialect
FROM llm_request_rows
LEFT JOIN contents e ON e.hash = error_text_content;
