-- The facts as a counting rule sees them: the input of sql/calls.sql.
--
--   unit, ord  whose calls are counted together (a run, trace or session), and the order of counting in it
--   key        call of one agent in its run, as the policy compares calls
--   result     as the policy compares results
--   err        a general error that is counted on its own
--   slot       call of one agent in its unit; a slot has one count, and one more for errors
--   resets_before, successes_before   what has emptied the slot's count so far
--   series     rows of one slot's count between two resets: what a streak cannot leave
--
-- outcome and kind are what the policy's own rules for outcomes say, where they say something.
--
-- Inputs: `tool_rules` (tool, resets, errors_apart, reviewed), `changed_prints` (print, changed),
-- `changed_results` (run, seq, result; of reviewed tools), `changed_outcomes` (run, seq, outcome, kind),
-- `units` (run, seq, unit, ord; empty: the run is the unit). $offset: numbers up to it are taken.
WITH seen AS (
    SELECT
        f.* EXCLUDE (key, result, print, outcome, kind),
        coalesce(o.outcome, f.outcome) AS outcome,
        coalesce(o.kind, f.kind) AS kind,
        CAST(coalesce(u.unit, f.run) AS INTEGER) AS unit,
        CAST(coalesce(u.ord, f.seq) AS INTEGER) AS ord,
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
keys AS (
    SELECT run, agent, print, row_number() OVER (ORDER BY run, agent, print) + $offset AS key
    FROM (SELECT DISTINCT run, agent, print FROM seen WHERE print IS NOT NULL) AS calls_of_runs
),
slots AS (
    SELECT unit, agent, print, row_number() OVER (ORDER BY unit, agent, print) + $offset AS slot
    FROM (SELECT DISTINCT unit, agent, print FROM seen WHERE print IS NOT NULL) AS calls_of_units
),
placed AS (
    SELECT s.*, k.key, l.slot
    FROM seen AS s
    LEFT JOIN keys AS k ON k.run = s.run AND k.agent = s.agent AND k.print = s.print
    LEFT JOIN slots AS l ON l.unit = s.unit AND l.agent = s.agent AND l.print = s.print
),
emptied AS (
    SELECT
        *,
        CASE WHEN resets THEN 0 ELSE
            count(CASE WHEN resets AND outcome = 1 THEN 1 END) OVER (
                PARTITION BY unit ORDER BY ord ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
        END AS resets_before,
        CASE WHEN NOT err THEN 0 ELSE
            count(CASE WHEN outcome = 1 THEN 1 END) OVER (
                PARTITION BY slot ORDER BY ord ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
        END AS successes_before
    FROM placed
)
SELECT
    * EXCLUDE (resets, print),
    CASE WHEN slot IS NOT NULL THEN dense_rank() OVER (ORDER BY slot, err, resets_before, successes_before) + $offset END AS series
FROM emptied
