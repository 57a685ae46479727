-- Further columns of sql/call_columns.sql: what the first policy says of the calls of sql/shown_changes.sql.
, CASE v.action_before
    WHEN 0 THEN 'allow' WHEN 1 THEN 'nudge' WHEN 2 THEN 'block' WHEN 3 THEN 'not_counted' ELSE 'after_block'
END AS action_before,
CASE v.judged_before WHEN 0 THEN 'avoidable' WHEN 1 THEN 'lost' WHEN 2 THEN 'unjudged' END AS judged_before,
v.exact_before
