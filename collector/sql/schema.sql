-- The tables of a Loopscope database. `views.sql` gives the public views over them; docs/store.md
-- describes both. A change here is a new schema version and needs a migration (see _schema.py).
--
-- There is no index on the big tables: a VARCHAR key over 5 M rows makes a fold of 500 rows hold
-- the file for 330-640 ms; deleting by key inside the batch's time range needs 25-45 ms.
--
-- Times are Unix nanoseconds (`…_ns`); `…_at` are the same instants in microseconds, computed.
-- `…_parts` and `…_content` are keys of `contents`, where longer texts are stored once.
-- NULL is "not recorded", which is never the same as ''.

CREATE TABLE meta (
    key VARCHAR PRIMARY KEY,
    value VARCHAR NOT NULL
);

-- A text of any table, once. `hash` is its key, counted from 1 as texts come in: lists of keys take a fifth of
-- what they took when keys were hashes (databases of earlier versions have such, too). `check_hash` is the last 4
-- bytes of blake2b-128 over the UTF-8 text (earlier versions: 8, as a signed number): texts with others are others.
CREATE TABLE contents (
    hash BIGINT NOT NULL,
    check_hash BIGINT NOT NULL,
    text VARCHAR NOT NULL
);

-- One OTLP span, whole. `attributes` and `events` are JSON texts in which every text that moved to
-- `contents` is a mark: chr(1) and 's' (the text, inside a JSON string) or 'j' (JSON text as it is);
-- the n-th mark stands for the n-th key in the parts column.
CREATE TABLE span_rows (
    trace_id VARCHAR NOT NULL,
    span_id VARCHAR NOT NULL,
    parent_span_id VARCHAR,
    name VARCHAR NOT NULL,
    kind TINYINT NOT NULL,
    service_name VARCHAR,
    start_ns BIGINT NOT NULL,
    end_ns BIGINT,
    status_code TINYINT NOT NULL,
    status_message VARCHAR,
    attributes VARCHAR NOT NULL,
    attribute_parts BIGINT[],
    events VARCHAR,
    event_parts BIGINT[],
    links VARCHAR,
    resource VARCHAR NOT NULL,
    scope_name VARCHAR,
    scope_version VARCHAR,
    dropped_attributes BIGINT NOT NULL,
    dropped_events BIGINT NOT NULL,
    received_ns BIGINT NOT NULL,
    started_at TIMESTAMP GENERATED ALWAYS AS (make_timestamp(start_ns // 1000)) VIRTUAL,
    ended_at TIMESTAMP GENERATED ALWAYS AS (make_timestamp(end_ns // 1000)) VIRTUAL
);

-- One OTLP log record, whole. `log_key` hashes all that was sent: the same record sent twice is one row.
CREATE TABLE log_rows (
    log_key BIGINT NOT NULL,
    trace_id VARCHAR,
    span_id VARCHAR,
    time_ns BIGINT NOT NULL,
    event_name VARCHAR,
    severity VARCHAR,
    service_name VARCHAR,
    body VARCHAR,
    body_parts BIGINT[],
    attributes VARCHAR NOT NULL,
    attribute_parts BIGINT[],
    resource VARCHAR NOT NULL,
    scope_name VARCHAR,
    scope_version VARCHAR,
    dropped_attributes BIGINT NOT NULL,
    received_ns BIGINT NOT NULL,
    logged_at TIMESTAMP GENERATED ALWAYS AS (make_timestamp(time_ns // 1000)) VIRTUAL,
    session_trace VARCHAR       -- of a record without trace_id: what stands for the trace of its session
);

-- Where the records of a trace lie (so that the fold reads only that stretch), and whether its calls
-- and requests are up to date. Private to the fold.
CREATE TABLE trace_rows (
    trace_id VARCHAR NOT NULL,
    spans BIGINT NOT NULL,
    first_start_ns BIGINT,      -- of its spans
    last_start_ns BIGINT,
    logs BIGINT NOT NULL,
    first_log_ns BIGINT,        -- time_ns of its log records
    last_log_ns BIGINT,
    first_derived_ns BIGINT,    -- start_ns of its calls and requests
    last_derived_ns BIGINT,
    stale BOOLEAN NOT NULL,     -- records came in after the last derivation
    derive_error VARCHAR,       -- why the last derivation failed
    session_trace VARCHAR,      -- the session it is derived together with; a session without a trace is a row, too
    mcp_sessions VARCHAR[],     -- MCP sessions that its spans name
    changed_in BIGINT DEFAULT 0 -- `fold_serial` after the fold that wrote this row: what readers have not seen yet
);

-- One tool call. Columns up to `dialect` are the fields of `ToolCall`. A short text (128 characters; a result: 256)
-- stands in its column, a longer one in `contents` under the key in `…_content`; at most one of the two is not NULL.
CREATE TABLE tool_call_rows (
    trace_id VARCHAR NOT NULL,
    span_id VARCHAR NOT NULL,
    position INTEGER NOT NULL,
    run_id VARCHAR NOT NULL,
    parent_run_id VARCHAR,
    run_source VARCHAR NOT NULL,
    session_id VARCHAR,
    service_name VARCHAR,
    agent_name VARCHAR,
    seq BIGINT,
    turn BIGINT,
    tool_name VARCHAR NOT NULL,
    call_id VARCHAR,
    arguments VARCHAR,
    arguments_content BIGINT,
    result VARCHAR,
    result_content BIGINT,
    outcome VARCHAR,
    error_kind VARCHAR,
    error_type VARCHAR,
    error_message VARCHAR,
    error_message_content BIGINT,
    http_status INTEGER,
    start_ns BIGINT NOT NULL,
    end_ns BIGINT,
    fingerprint BIGINT,
    fingerprint_version INTEGER NOT NULL,
    result_hash BIGINT,
    scope_key BIGINT,
    content_state VARCHAR NOT NULL,
    recorded_verdict VARCHAR,
    dialect VARCHAR NOT NULL,
    trace_seq BIGINT,           -- seq and turn counted inside this trace; a run that spans traces is
    trace_turn BIGINT,          -- numbered over all of them in seq and turn
    started_at TIMESTAMP GENERATED ALWAYS AS (make_timestamp(start_ns // 1000)) VIRTUAL,
    ended_at TIMESTAMP GENERATED ALWAYS AS (make_timestamp(end_ns // 1000)) VIRTUAL
);

-- One request to a model. `input_parts` and `output_parts` hold one key of `contents` per message.
CREATE TABLE llm_request_rows (
    trace_id VARCHAR NOT NULL,
    span_id VARCHAR NOT NULL,
    run_id VARCHAR NOT NULL,
    run_source VARCHAR NOT NULL,
    session_id VARCHAR,
    service_name VARCHAR,
    agent_name VARCHAR,
    turn BIGINT,
    provider VARCHAR,
    model VARCHAR,
    input_parts BIGINT[],
    output_parts BIGINT[],
    input_tokens BIGINT,
    output_tokens BIGINT,
    cost DOUBLE,
    status VARCHAR NOT NULL,
    http_status INTEGER,
    error_type VARCHAR,
    error_text VARCHAR,
    error_text_content BIGINT,
    error_class VARCHAR,
    content_state VARCHAR NOT NULL,
    start_ns BIGINT NOT NULL,
    end_ns BIGINT,
    dialect VARCHAR NOT NULL,
    trace_turn BIGINT,
    started_at TIMESTAMP GENERATED ALWAYS AS (make_timestamp(start_ns // 1000)) VIRTUAL,
    ended_at TIMESTAMP GENERATED ALWAYS AS (make_timestamp(end_ns // 1000)) VIRTUAL
);

CREATE TABLE labels (
    key VARCHAR PRIMARY KEY,    -- an incident's key
    verdict VARCHAR NOT NULL,
    note VARCHAR,
    labelled_at TIMESTAMP NOT NULL
);

CREATE TABLE policies (
    name VARCHAR PRIMARY KEY,
    toml VARCHAR NOT NULL,
    policy_hash VARCHAR NOT NULL,
    saved_at TIMESTAMP NOT NULL
);

-- Segments whose records are in, while their files may still exist. Names of files that are gone are removed.
CREATE TABLE folded_segments (
    name VARCHAR NOT NULL,
    folded_at TIMESTAMP NOT NULL
);

-- What writers say they lost before it reached the spool, summed from the headers of segments.
CREATE TABLE drop_counters (
    name VARCHAR NOT NULL,      -- such as dropped_spans
    source VARCHAR NOT NULL,    -- service name, or host and process
    value BIGINT NOT NULL,
    last_ns BIGINT NOT NULL,
    PRIMARY KEY (name, source)
);
