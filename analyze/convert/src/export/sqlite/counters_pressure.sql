-- The kernel counts in steps of its own: a share may come out a little above the whole.
pressure_hosts AS (SELECT *, CASE resource WHEN 0 THEN 'cpu' WHEN 1 THEN 'memory' WHEN 2 THEN 'io' WHEN 3 THEN 'irq' ELSE 'unknown' END
    AS lacked, (SELECT label || ': ' FROM hosts WHERE cpu_base <= cpu ORDER BY cpu_base DESC LIMIT 1) AS host FROM pressure),
p AS (SELECT *, some_ns - lag(some_ns) OVER w AS some_stood, full_ns - lag(full_ns) OVER w AS all_stood,
    max(ts_ns - lag(ts_ns) OVER w, 1) AS passed FROM pressure_hosts WINDOW w AS (PARTITION BY host, resource ORDER BY ts_ns)),
pressure_values AS (
SELECT ts_ns, host, 'pressure ' || lacked || ' some %' AS name, min(max(100.0 * some_stood / passed, 0), 100.0) AS value FROM p
UNION ALL SELECT ts_ns, host, 'pressure ' || lacked || ' full %', min(max(100.0 * all_stood / passed, 0), 100.0) FROM p)
