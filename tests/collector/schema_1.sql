-- The tables of a database of version 1, for tests of what it takes to open one today.

CREATE TABLE meta (
    key VARCHAR PRIMARY KEY,
    value VARCHAR NOT NULL
);
CREATE TABLE contents (
    hash BIGINT NOT NULL,
    check_hash BIGINT NOT NULL,
    text VARCHAR NOT NULL
);
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
    logged_at TIMESTAMP GENERATED ALWAYS AS (make_timestamp(time_ns // 1000)) VIRTUAL
);
CREATE TABLE trace_rows (
    trace_id VARCHAR NOT NULL,
    spans BIGINT NOT NULL,
    first_start_ns BIGINT,
    last_start_ns BIGINT,
    logs BIGINT NOT NULL,
    first_log_ns BIGINT,
    last_log_ns BIGINT,
    first_derived_ns BIGINT,
    last_derived_ns BIGINT,
    stale BOOLEAN NOT NULL,
    derive_error VARCHAR
);
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
    trace_seq BIGINT,
    trace_turn BIGINT,
    started_at TIMESTAMP GENERATED ALWAYS AS (make_timestamp(start_ns // 1000)) VIRTUAL,
    ended_at TIMESTAMP GENERATED ALWAYS AS (make_timestamp(end_ns // 1000)) VIRTUAL
);
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
    key VARCHAR PRIMARY KEY,
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
CREATE TABLE folded_segments (
    name VARCHAR NOT NULL,
    folded_at TIMESTAMP NOT NULL
);
CREATE TABLE drop_counters (
    name VARCHAR NOT NULL,
    source VARCHAR NOT NULL,
    value BIGINT NOT NULL,
    last_ns BIGINT NOT NULL,
    PRIMARY KEY (name, source)
);
