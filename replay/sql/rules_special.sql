-- Runs with a call of a tool that some rule looks at more closely.
SELECT DISTINCT run, tool FROM facts WHERE tool IN (SELECT unnest($tools))
