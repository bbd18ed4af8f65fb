-- The layout of ingero's databases, version 0.9: tables, columns and indexes as its readers expect them.
CREATE TABLE events (
    id TEXT PRIMARY KEY,
    timestamp INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    tid INTEGER NOT NULL,
    source INTEGER NOT NULL,
    op INTEGER NOT NULL,
    duration INTEGER NOT NULL,
    gpu_id INTEGER NOT NULL DEFAULT 0,
    arg0 INTEGER NOT NULL DEFAULT 0,
    arg1 INTEGER NOT NULL DEFAULT 0,
    ret_code INTEGER NOT NULL DEFAULT 0,
    stack_hash INTEGER NOT NULL DEFAULT 0,
    node TEXT NOT NULL DEFAULT '',
    rank INTEGER,
    local_rank INTEGER,
    world_size INTEGER,
    stack_ips TEXT NOT NULL DEFAULT '',
    cgroup_id INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE stack_traces (
    hash INTEGER PRIMARY KEY,
    ips TEXT NOT NULL,
    frames TEXT NOT NULL DEFAULT ''
);
CREATE TABLE causal_chains (
    id TEXT PRIMARY KEY,
    detected_at INTEGER NOT NULL,
    severity TEXT NOT NULL,
    summary TEXT NOT NULL,
    root_cause TEXT NOT NULL,
    explanation TEXT NOT NULL,
    recommendations TEXT NOT NULL DEFAULT '',
    cuda_op TEXT NOT NULL DEFAULT '',
    cuda_p99_us INTEGER NOT NULL DEFAULT 0,
    cuda_p50_us INTEGER NOT NULL DEFAULT 0,
    tail_ratio REAL NOT NULL DEFAULT 0,
    timeline TEXT NOT NULL DEFAULT '',
    node TEXT NOT NULL DEFAULT ''
);
CREATE TABLE sources (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    description TEXT NOT NULL
);
CREATE TABLE ops (
    source_id INTEGER NOT NULL,
    op_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    PRIMARY KEY (source_id, op_id)
);
CREATE TABLE schema_info (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
);
CREATE TABLE system_snapshots (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    timestamp INTEGER NOT NULL UNIQUE,
    cpu_pct REAL NOT NULL,
    mem_pct REAL NOT NULL,
    mem_avail INTEGER NOT NULL,
    swap_mb INTEGER NOT NULL,
    load_avg REAL NOT NULL
);
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    started_at INTEGER NOT NULL,
    stopped_at INTEGER NOT NULL DEFAULT 0,
    gpu_model TEXT NOT NULL DEFAULT '',
    gpu_driver TEXT NOT NULL DEFAULT '',
    cpu_model TEXT NOT NULL DEFAULT '',
    cpu_cores INTEGER NOT NULL DEFAULT 0,
    mem_total INTEGER NOT NULL DEFAULT 0,
    kernel TEXT NOT NULL DEFAULT '',
    os_release TEXT NOT NULL DEFAULT '',
    cuda_ver TEXT NOT NULL DEFAULT '',
    python_ver TEXT NOT NULL DEFAULT '',
    ingero_ver TEXT NOT NULL DEFAULT '',
    pid_filter TEXT NOT NULL DEFAULT '',
    flags TEXT NOT NULL DEFAULT '',
    node TEXT NOT NULL DEFAULT '',
    rank INTEGER,
    local_rank INTEGER,
    world_size INTEGER
);
CREATE TABLE process_names (
    pid INTEGER PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    seen_at INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE event_aggregates (
    bucket INTEGER NOT NULL,
    source INTEGER NOT NULL,
    op INTEGER NOT NULL,
    pid INTEGER NOT NULL DEFAULT 0,
    count INTEGER NOT NULL DEFAULT 0,
    stored INTEGER NOT NULL DEFAULT 0,
    sum_dur INTEGER NOT NULL DEFAULT 0,
    min_dur INTEGER NOT NULL DEFAULT 0,
    max_dur INTEGER NOT NULL DEFAULT 0,
    sum_arg0 INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (bucket, source, op, pid)
);
CREATE TABLE cgroup_metadata (
    cgroup_id INTEGER PRIMARY KEY,
    container_id TEXT NOT NULL DEFAULT '',
    cgroup_path TEXT NOT NULL DEFAULT '',
    pod_name TEXT NOT NULL DEFAULT '',
    namespace TEXT NOT NULL DEFAULT ''
);
CREATE TABLE cgroup_schedstat (
    cgroup_id INTEGER NOT NULL,
    p99_off_cpu INTEGER NOT NULL,
    total_off_cpu INTEGER NOT NULL,
    event_count INTEGER NOT NULL,
    window_start INTEGER NOT NULL DEFAULT 0,
    window_end INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (cgroup_id, window_end)
);
CREATE INDEX idx_events_timestamp ON events (timestamp);
CREATE INDEX idx_events_pid ON events (pid);
CREATE INDEX idx_chains_detected_at ON causal_chains (detected_at);
CREATE INDEX idx_chains_severity ON causal_chains (severity);
CREATE INDEX idx_events_source_op_stack ON events (source, op, stack_hash);
CREATE UNIQUE INDEX idx_snapshots_ts_uniq ON system_snapshots (timestamp);
CREATE INDEX idx_sessions_started ON sessions (started_at);
CREATE INDEX idx_aggregates_bucket ON event_aggregates (bucket);
CREATE INDEX idx_events_cgroup ON events (cgroup_id) WHERE cgroup_id != 0;
CREATE INDEX idx_cgroup_metadata_container_id ON cgroup_metadata (container_id) WHERE container_id != '';
CREATE INDEX idx_cgroup_schedstat_cgroup ON cgroup_schedstat (cgroup_id);
