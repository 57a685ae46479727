-- A record's time is when it happened. Where that cannot be (before 2001, where importers put what has no time
-- of its own; or more than a day after it came in) it is when it came in.

CREATE OR REPLACE TEMP MACRO judged_ns(at_ns, received_ns) AS
    CASE WHEN at_ns < 978307200000000000 OR at_ns > received_ns + 86400000000000 THEN received_ns ELSE at_ns END;
