-- The rate of each size of copy, from each buffer of host memory: a copy lasts from its call to the return of the
-- synchronisation behind it. The first copy of a size warms up and is left out.
WITH step AS (
    SELECT ts_ns, function, bytes, ptr2 AS host, lead(ts_ns + dur_ns) OVER later AS synchronised_ns, lead(function) OVER later AS next
    FROM calls WHERE layer = 'runtime' AND function IN ('cudaMemcpyAsync', 'cudaDeviceSynchronize')
    WINDOW later AS (PARTITION BY task ORDER BY ts_ns)
), copies AS (
    SELECT host, bytes, ts_ns, synchronised_ns - ts_ns AS ns, row_number() OVER (PARTITION BY host, bytes ORDER BY ts_ns) AS number
    FROM step WHERE function = 'cudaMemcpyAsync' AND next = 'cudaDeviceSynchronize'
)
SELECT host, bytes, count(*) AS copies, round(1.0 * sum(bytes) / sum(ns), 2) AS "GB/s", round(1.0 * bytes / min(ns), 2) AS "best GB/s"
FROM copies WHERE number > 1 GROUP BY host, bytes ORDER BY min(ts_ns);
