-- One text of arguments per fingerprint, of calls whose arguments may hold one of $keys. A name can
-- also be written with escapes, so every text with a \u counts.
SELECT c.fingerprint, min(c.tool_name) AS tool_name, min(coalesce(c.arguments, t.text)) AS arguments
FROM tool_call_rows AS c
LEFT JOIN contents AS t ON t.hash = c.arguments_content
WHERE c.fingerprint IS NOT NULL
  AND TRUE /* filter */
  AND (contains(coalesce(c.arguments, t.text), '\u')
       OR EXISTS (SELECT 1 FROM (SELECT unnest($keys) AS name) AS k
                  WHERE contains(coalesce(c.arguments, t.text), k.name)))
GROUP BY c.fingerprint
