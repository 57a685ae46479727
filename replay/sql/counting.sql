-- The facts as a counting rule sees them: the input of sql/calls.sql.
--
--   unit, ord  whose calls are counted together (a run, trace or session), and the order of counting in it
--   key        call of one agent in its run, as the policy compares calls
--   result     as the policy compares results
--   err        a general error that is counted on its own
--   slot       call of one agent in its unit; a slot has one count, and one more for errors
--   resets_before, successes_before   what has emptied the slot's count so far; 0 where it has one call only
--   series     rows of one slot's count between two resets: what a streak cannot leave
--   twice      its slot has another call, or its key: the others need no window, which spares most of the sorting
--
-- outcome and kind are what the policy's own rules for outcomes say, where they say something. A slot or series is
-- named after the place of its first call, so numbers do not depend on what was counted before.
--
-- Inputs: `tool_rules` (tool, resets, errors_apart, reviewed), `changed_prints` (print, changed),
-- `changed_results` (run, seq, result; of reviewed tools), `changed_outcomes` (run, seq, outcome, kind),
-- `units` (run, seq, unit, ord; empty: the run is the unit).
WITH seen AS (
    SELECT
        f.* EXCLUDE (result, print, outcome, kind),
        coalesce(o.outcome, f.outcome) AS outcome,
        coalesce(o.kind, f.kind) AS kind,
        CAST(coalesce(u.unit, f.run) AS INTEGER) AS unit,
        CAST(coalesce(u.ord, f.seq) AS INTEGER) AS ord,
        CAST(coalesce(u.unit, f.run) AS BIGINT) * 4294967296 + coalesce(u.ord, f.seq) AS place,
        u.unit IS NOT NULL AS wide,
        coalesce(p.changed, f.print) AS print,
        CASE WHEN t.reviewed THEN v.result ELSE f.result END AS result,
        t.errors_apart AND coalesce(o.outcome, f.outcome) = 3 AS err,
        t.resets
    FROM facts AS f
    JOIN tool_rules AS t ON t.tool = f.tool
    LEFT JOIN changed_prints AS p ON p.print = f.print
    LEFT JOIN changed_results AS v ON v.run = f.run AND v.seq = f.seq
    LEFT JOIN changed_outcomes AS o ON o.run = f.run AND o.seq = f.seq
    LEFT JOIN units AS u ON u.run = f.run AND u.seq = f.seq
),
-- Calls that only the policy takes for the same one: together they have the least of their keys.
keys AS (
    SELECT run, agent, print, min(key) AS key
    FROM seen
    WHERE print IN (SELECT changed FROM changed_prints)
    GROUP BY run, agent, print
    HAVING min(key) < max(key)
),
slots AS (
    SELECT unit, agent, print, min(place) AS slot
    FROM seen
    WHERE wide AND print IS NOT NULL
    GROUP BY unit, agent, print
    HAVING count(*) > 1
),
placed AS (
    SELECT
        s.* EXCLUDE (key),
        coalesce(k.key, s.key) AS key,
        CASE
            WHEN s.print IS NULL THEN NULL
            WHEN s.wide THEN coalesce(l.slot, s.place)
            ELSE coalesce(k.key, s.key)
        END AS slot
    FROM seen AS s
    LEFT JOIN keys AS k ON k.run = s.run AND k.agent = s.agent AND k.print = s.print
    LEFT JOIN slots AS l ON l.unit = s.unit AND l.agent = s.agent AND l.print = s.print
),
repeated AS (
    SELECT slot FROM placed WHERE slot IS NOT NULL GROUP BY slot HAVING count(*) > 1
),
-- A run may lie in several units; else its key is its slot.
known_keys AS (
    SELECT key FROM placed WHERE wide AND key IS NOT NULL GROUP BY key HAVING count(*) > 1
),
emptied AS (
    SELECT
        run, seq, slot, place, err,
        CASE WHEN resets THEN 0 ELSE
            count(CASE WHEN resets AND outcome = 1 THEN 1 END) OVER (
                PARTITION BY unit ORDER BY ord ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
        END AS resets_before,
        CASE WHEN NOT err THEN 0 ELSE
            count(CASE WHEN outcome = 1 THEN 1 END) OVER (
                PARTITION BY slot ORDER BY ord ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
        END AS successes_before
    FROM placed
    WHERE slot IN (SELECT slot FROM repeated) OR (resets AND outcome = 1)
),
series AS (
    SELECT
        run, seq, resets_before, successes_before,
        min(place) OVER (PARTITION BY slot, err, resets_before, successes_before) AS series
    FROM emptied
    WHERE slot IS NOT NULL
)
SELECT
    p.* EXCLUDE (resets, print, place, wide),
    coalesce(e.resets_before, 0) AS resets_before,
    coalesce(e.successes_before, 0) AS successes_before,
    CASE WHEN p.slot IS NOT NULL THEN coalesce(e.series, p.place) END AS series,
    e.run IS NOT NULL OR p.key IN (SELECT key FROM known_keys) AS twice
FROM placed AS p
LEFT JOIN series AS e ON e.run = p.run AND e.seq = p.seq
