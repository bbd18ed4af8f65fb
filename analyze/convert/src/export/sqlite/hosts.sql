-- Where the recording is one of several hosts: the CPU that each begins at. What is of a host as a whole stands on that CPU. Two
-- recordings of one host are told apart by their numbers.
CREATE VIEW hosts AS SELECT id, name, iif(count(*) OVER (PARTITION BY name) > 1, name || ' (' || id || ')', name) AS label, cpu_base
    FROM (SELECT CAST(substr(b.key, 6, length(b.key) - 14) AS INTEGER) AS id,
    coalesce(n.value, (SELECT value FROM meta WHERE key = 'host'), 'host ' || substr(b.key, 6, length(b.key) - 14)) AS name, CAST(b.value AS INTEGER) AS cpu_base
    FROM meta b LEFT JOIN meta n ON n.key = replace(b.key, '.cpu_base', '.host') WHERE b.key GLOB 'host.[0-9]*.cpu_base');
