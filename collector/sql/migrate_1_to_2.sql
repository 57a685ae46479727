-- What is derived changes: refused requests have their `error_class`, and messages from
-- the span of their agent; histories recorded in pieces are whole; stubs are no results. So every trace is
-- marked, and the next folds derive it again from its records.
ALTER TABLE log_rows ADD COLUMN session_trace VARCHAR;
ALTER TABLE trace_rows ADD COLUMN session_trace VARCHAR;
ALTER TABLE trace_rows ADD COLUMN mcp_sessions VARCHAR[];

-- The logs of command-line agents are calls and requests now, together with the spans of their session. What
-- follows says in SQL what collector/_session_ids.py and dialects/cli_agents.py say for new records.
CREATE TEMP TABLE session_logs AS
SELECT log_key, trace_id, CASE agent WHEN 'codex' THEN codex_session WHEN 'claude_code' THEN session
                          WHEN 'gemini_cli' THEN coalesce(session, conversation)
                          WHEN 'gen_ai' THEN coalesce(conversation, session) END AS session, agent
FROM (
    SELECT log_key, trace_id,
           CASE WHEN event_name LIKE 'claude_code.%' OR body LIKE '"claude_code.%' THEN 'claude_code'
                WHEN event_name LIKE 'codex.%' OR body LIKE '"codex.%' THEN 'codex'
                WHEN event_name LIKE 'gemini_cli.%' OR body LIKE '"gemini_cli.%' THEN 'gemini_cli'
                WHEN event_name <> '' AND scope_name LIKE 'com.anthropic.claude_code%' THEN 'claude_code'
                WHEN event_name <> '' AND (scope_name LIKE 'gemini-cli%' OR scope_name LIKE 'gemini_cli%')
                    THEN 'gemini_cli'
                WHEN event_name LIKE 'gen_ai.%' AND trace_id IS NULL THEN 'gen_ai' END AS agent,
           nullif(regexp_extract(attributes, '"session\.id": ?"((?:[^"\\]|\\.)*)"', 1), '') AS session,
           nullif(regexp_extract(attributes, '"gen_ai\.conversation\.id": ?"((?:[^"\\]|\\.)*)"', 1), '') AS conversation,
           nullif(regexp_extract(attributes, '"conversation[._]id": ?"((?:[^"\\]|\\.)*)"', 1), '') AS codex_session
    FROM log_rows
)
WHERE agent IS NOT NULL;

UPDATE log_rows SET session_trace = md5(concat_ws(chr(10), 'session', s.agent, s.session))
FROM session_logs s
WHERE s.log_key = log_rows.log_key AND log_rows.trace_id IS NULL AND s.session IS NOT NULL;

INSERT INTO trace_rows (trace_id, spans, logs, first_log_ns, last_log_ns, stale, session_trace)
SELECT session_trace, 0, count(*), min(time_ns), max(time_ns), TRUE, session_trace
FROM log_rows
WHERE session_trace IS NOT NULL
GROUP BY session_trace;

UPDATE trace_rows SET session_trace = s.unit
FROM (
    SELECT trace_id, min(md5(concat_ws(chr(10), 'session', agent, session))) AS unit
    FROM (
        SELECT trace_id, agent, session FROM session_logs WHERE trace_id IS NOT NULL AND agent <> 'gen_ai'
        UNION ALL
        SELECT trace_id, agent, CASE agent WHEN 'codex' THEN codex_session WHEN 'claude_code' THEN session
                                ELSE coalesce(session, conversation) END
        FROM (
            SELECT trace_id,
                   CASE WHEN scope_name LIKE 'com.anthropic.claude_code%' OR name LIKE 'claude_code.%' THEN 'claude_code'
                        WHEN scope_name LIKE 'codex%' THEN 'codex'
                        WHEN scope_name LIKE 'gemini-cli%' OR scope_name LIKE 'gemini_cli%' THEN 'gemini_cli' END AS agent,
                   nullif(regexp_extract(attributes, '"session\.id": ?"((?:[^"\\]|\\.)*)"', 1), '') AS session,
                   nullif(regexp_extract(attributes, '"gen_ai\.conversation\.id": ?"((?:[^"\\]|\\.)*)"', 1), '')
                       AS conversation,
                   nullif(regexp_extract(attributes, '"conversation[._]id": ?"((?:[^"\\]|\\.)*)"', 1), '')
                       AS codex_session
            FROM span_rows
            WHERE scope_name LIKE 'com.anthropic.claude_code%' OR name LIKE 'claude_code.%'
               OR scope_name LIKE 'codex%' OR scope_name LIKE 'gemini_cli%' OR scope_name LIKE 'gemini-cli%'
        )
        WHERE agent IS NOT NULL
    )
    WHERE session IS NOT NULL
    GROUP BY trace_id
) s
WHERE s.trace_id = trace_rows.trace_id;

-- A session that goes over several requests is a run, also where these are of several traces.
UPDATE trace_rows SET mcp_sessions = m.sessions
FROM (
    SELECT trace_id, list_sort(list(session))[:1000] AS sessions
    FROM (
        SELECT DISTINCT trace_id,
               nullif(regexp_extract(attributes, '"mcp\.session\.id": ?"((?:[^"\\]|\\.)*)"', 1), '') AS session
        FROM span_rows
        WHERE attributes LIKE '%"mcp.session.id"%'
    )
    WHERE session IS NOT NULL
    GROUP BY trace_id
) m
WHERE m.trace_id = trace_rows.trace_id;

DROP TABLE session_logs;

UPDATE trace_rows SET stale = TRUE;
