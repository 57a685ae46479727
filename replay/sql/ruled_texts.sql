-- Different calls as outcome rules see them, of the tools in $tools (NULL: all), with whole texts. Only
-- where $successes or $failures have a rule; a call whose outcome is not known stays so.
WITH calls AS (
    SELECT DISTINCT
        tool_name, outcome, error_kind, error_type, http_status, result, result_content, error_message, error_message_content
    FROM tool_call_rows AS c
    WHERE seq IS NOT NULL
      AND TRUE /* filter */
      AND ($tools IS NULL OR tool_name IN (SELECT unnest($tools)))
      AND CASE WHEN outcome = 'success' THEN $successes ELSE $failures AND outcome IS NOT NULL END
)
SELECT c.*, coalesce(c.result, r.text) AS result_text, coalesce(c.error_message, m.text) AS error_text
FROM calls AS c
LEFT JOIN contents AS r ON r.hash = c.result_content
LEFT JOIN contents AS m ON m.hash = c.error_message_content
