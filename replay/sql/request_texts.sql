-- The texts of the messages in the table `wanted_texts` (key).
SELECT c.hash, c.text
FROM wanted_texts AS w
JOIN contents AS c ON c.hash = w.key
