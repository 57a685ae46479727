-- Failed requests that may have been cancelled, by what their error says; its text cut at $text_limit characters.
-- Behind sql/error_texts.sql.
SELECT
    q.http_status, q.error_type, q.error_class,
    left(coalesce(q.error_text, e.text), $text_limit) AS error_text,
    count(*) AS requests,
    count(CASE WHEN q.input_parts IS NULL THEN 1 END) AS without_messages
FROM llm_request_rows AS q
LEFT JOIN error_texts AS e ON e.hash = q.error_text_content
WHERE
    q.status = 'error' AND (q.http_status IS NULL OR q.http_status = 499)
    AND (q.error_class IS NULL OR q.error_class = 'other')
    AND TRUE /* filter */
GROUP BY ALL
