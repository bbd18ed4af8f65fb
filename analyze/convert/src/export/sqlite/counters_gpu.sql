gpu AS (SELECT *, 'GPU ' || device || ' ' AS of,
    (SELECT label || ': ' FROM hosts WHERE cpu_base <= cpu ORDER BY cpu_base DESC LIMIT 1) AS host FROM gpu_sample),
gpu_values AS (SELECT ts_ns, host, of || 'busy %' AS name, busy_percent AS value FROM gpu
UNION ALL SELECT ts_ns, host, of || 'memory busy %', memory_busy_percent FROM gpu
UNION ALL SELECT ts_ns, host, of || 'memory used bytes', memory_used_bytes FROM gpu
UNION ALL SELECT ts_ns, host, of || 'SM MHz', sm_mhz FROM gpu
UNION ALL SELECT ts_ns, host, of || 'memory MHz', memory_mhz FROM gpu
UNION ALL SELECT ts_ns, host, of || 'PCIe received bytes/s', pcie_rx FROM gpu
UNION ALL SELECT ts_ns, host, of || 'PCIe sent bytes/s', pcie_tx FROM gpu
UNION ALL SELECT ts_ns, host, of || 'power W', power_mw / 1000.0 FROM gpu
UNION ALL SELECT ts_ns, host, of || 'temperature C', celsius FROM gpu)
