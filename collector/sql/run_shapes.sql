-- By service and by what told runs apart: how many runs there are, and how many hold one finished call.

SELECT service_name,
       run_source,
       count(*) AS runs,
       count(*) FILTER (calls = 1) AS runs_of_one_call
FROM (
    SELECT any_value(service_name) AS service_name, any_value(run_source) AS run_source, count(*) AS calls
    FROM tool_call_rows
    GROUP BY run_id
)
GROUP BY service_name, run_source
ORDER BY runs DESC, service_name, run_source;
