-- Texts of failed requests that stand in `contents`: few of all that do, which a plain join would go through.
WITH error_texts AS (
    SELECT hash, text FROM contents
    WHERE hash IN (
        SELECT error_text_content FROM llm_request_rows
        WHERE status = 'error' AND error_text_content IS NOT NULL
    )
)
