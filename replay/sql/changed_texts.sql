-- Different results as recorded of the tools in $tools, with their whole texts.
SELECT DISTINCT c.tool_name, c.result, c.result_content, coalesce(c.result, t.text) AS text
FROM tool_call_rows AS c
LEFT JOIN contents AS t ON t.hash = c.result_content
WHERE c.tool_name IN (SELECT unnest($tools)) AND coalesce(c.result, t.text) IS NOT NULL
  AND TRUE /* filter */
