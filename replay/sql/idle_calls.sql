-- The calls of some tools that are not counted.
SELECT run, seq, tool
FROM calls
WHERE NOT counted AND tool IN (SELECT unnest($idle_tools)) AND (TRUE /* filter */)
