-- Remove those texts of `dropped_keys` (hash) that nothing refers to any more.

DELETE FROM contents WHERE hash IN (
    SELECT hash FROM dropped_keys
    EXCEPT SELECT unnest(attribute_parts) FROM span_rows WHERE attribute_parts IS NOT NULL
    EXCEPT SELECT unnest(event_parts) FROM span_rows WHERE event_parts IS NOT NULL
    EXCEPT SELECT unnest(attribute_parts) FROM log_rows WHERE attribute_parts IS NOT NULL
    EXCEPT SELECT unnest(body_parts) FROM log_rows WHERE body_parts IS NOT NULL
    EXCEPT SELECT arguments_content FROM tool_call_rows
    EXCEPT SELECT result_content FROM tool_call_rows
    EXCEPT SELECT error_message_content FROM tool_call_rows
    EXCEPT SELECT unnest(input_parts) FROM llm_request_rows WHERE input_parts IS NOT NULL
    EXCEPT SELECT unnest(output_parts) FROM llm_request_rows WHERE output_parts IS NOT NULL
    EXCEPT SELECT error_text_content FROM llm_request_rows
);
