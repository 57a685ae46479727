-- Nothing of the tables changes. What is derived does: refused requests have their `error_class`, and messages from
-- the span of their agent; histories recorded in pieces are whole; stubs are no results. So every trace is
-- marked, and the next folds derive it again from its records.
UPDATE trace_rows SET stale = TRUE;
