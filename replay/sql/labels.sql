-- The labels, in order of keys.
SELECT key, verdict, note, epoch_us(labelled_at) * 1000 AS labelled_ns
FROM labels
ORDER BY key
