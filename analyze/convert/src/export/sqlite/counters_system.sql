-- Shares are of the time since the sample before, of the same host. A kernel that does not count waiting for disks counts it as idle.
system_hosts AS (SELECT *,
    (SELECT label || ': ' FROM hosts WHERE cpu_base <= cpu ORDER BY cpu_base DESC LIMIT 1) AS host FROM system),
s AS (SELECT *, user_ns - lag(user_ns) OVER w AS user, system_ns - lag(system_ns) OVER w AS sys,
    steal_ns - lag(steal_ns) OVER w AS stolen,
    idle_ns - lag(idle_ns) OVER w + ifnull(iowait_ns - lag(iowait_ns) OVER w, 0) AS idle
    FROM system_hosts WINDOW w AS (PARTITION BY host ORDER BY ts_ns)),
parts AS (SELECT *, ifnull(user, 0) + ifnull(sys, 0) + ifnull(stolen, 0) + ifnull(idle, 0) AS passed FROM s),
system_values AS (SELECT ts_ns, host, 'CPU user %' AS name, 100.0 * user / max(passed, 1) AS value FROM parts
UNION ALL SELECT ts_ns, host, 'CPU system %', 100.0 * sys / max(passed, 1) FROM parts
UNION ALL SELECT ts_ns, host, 'CPU stolen %', 100.0 * stolen / max(passed, 1) FROM parts
UNION ALL SELECT ts_ns, host, 'memory used bytes', mem_total_bytes - mem_available_bytes FROM parts
UNION ALL SELECT ts_ns, host, 'swap used bytes', swap_used_bytes FROM parts
UNION ALL SELECT ts_ns, host, 'load, 1 minute', load1_milli / 1000.0 FROM parts)
