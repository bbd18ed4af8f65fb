-- The figures of ingero-analyze, as spec/semantics.md defines them. SUM64 is spelled out before SQLite sees it (views.rs).
CREATE VIEW process_figures AS
WITH switched AS (SELECT t.process, count(*) AS n FROM sched_switch s JOIN tasks t ON t.id = s.prev WHERE s.prev <> 0 GROUP BY 1),
off AS (SELECT t.process, sum(shut) AS n, SUM64(shut * (s.end_ns - s.start_ns)) AS sum_ns, max(shut * (s.end_ns - s.start_ns)) AS max_ns,
    SUM64(shut * blocked_ns) AS blocked_ns, SUM64(shut * runnable_ns) AS runnable_ns, SUM64(shut * throttled_ns) AS throttled_ns,
    SUM64((1 - shut) * (s.end_ns - s.start_ns)) AS unfinished_ns, sum(shut * synthesised) AS synthesised
    FROM (SELECT *, NOT (before OR unfinished) AS shut FROM stay WHERE kind <> 'newborn') s JOIN tasks t ON t.id = s.task GROUP BY 1),
ran AS (SELECT t.process, SUM64(r.end_ns - r.start_ns) AS ns FROM run r JOIN tasks t ON t.id = r.task GROUP BY 1),
pages AS (SELECT t.process, count(*) AS n, SUM64(k.page_bytes << iif(a."order" BETWEEN 0 AND 32, a."order", 32)) AS bytes
    FROM mm_page_alloc a JOIN tasks t ON t.id = a.task JOIN known k ON k.process = t.process GROUP BY 1),
called AS (SELECT t.process, count(*) AS n FROM call c JOIN tasks t ON t.id = c.task GROUP BY 1),
-- Of a recording of several hosts each knows what it recorded.
knows AS (SELECT process, states AND (SELECT max(key = 'counts_switches') FROM meta WHERE value = 'true') AS switches, throttling,
    page_allocs AS pages, squeezed_ns FROM known)
SELECT p.pid, coalesce(p.name, '?') AS process, p.parent_pid, (SELECT count(*) FROM tasks t WHERE t.process = p.id) AS threads,
    iif(k.switches, coalesce(switched.n, 0), NULL) AS context_switches, iif(k.switches, coalesce(off.n, 0), NULL) AS off_cpu_count,
    iif(k.switches, coalesce(off.sum_ns, 0), NULL) AS off_cpu_ns, iif(k.switches AND off.n > 0, off.max_ns, NULL) AS off_cpu_max_ns,
    iif(k.switches, coalesce(off.blocked_ns, 0), NULL) AS blocked_ns, iif(k.switches, coalesce(off.runnable_ns, 0), NULL) AS runnable_ns,
    iif(k.switches AND k.throttling, coalesce(off.throttled_ns, 0), NULL) AS throttled_ns,
    iif(k.switches, coalesce(off.unfinished_ns, 0), NULL) AS unfinished_ns,
    iif(k.switches, coalesce(off.synthesised, 0), NULL) AS synthesised,
    iif(k.switches, coalesce(ran.ns, 0), NULL) AS on_cpu_ns,
    iif(k.pages, coalesce(pages.n, 0), NULL) AS page_allocs, iif(k.pages, coalesce(pages.bytes, 0), NULL) AS page_alloc_bytes,
    p.id, iif(k.switches, k.squeezed_ns, NULL) AS squeezed_ns
FROM processes p JOIN knows k ON k.process = p.id LEFT JOIN switched ON switched.process = p.id LEFT JOIN off ON off.process = p.id
    LEFT JOIN ran ON ran.process = p.id LEFT JOIN pages ON pages.process = p.id LEFT JOIN called ON called.process = p.id
WHERE p.id <> 0 AND p.shown AND (switched.n > 0 OR ran.ns <> 0 OR off.unfinished_ns <> 0 OR pages.n > 0
    OR called.n > 0);
CREATE VIEW op_figures AS
WITH returned AS (SELECT c.*, c."end" = 0 AND c.dur_ns IS NOT NULL AS back FROM call c),
-- What a call that did not return says of its length and result counts for nothing; nor does one whose return has no time.
c AS (SELECT t.process, c.func_id, iif(c.back, c.dur_ns, NULL) AS dur_ns, c.back, c."end", c.result, c.bytes, d.*,
    row_number() OVER (PARTITION BY t.process, c.func_id, c.back ORDER BY c.dur_ns) AS place,
    count(*) OVER (PARTITION BY t.process, c.func_id, c.back) AS n
    FROM returned c JOIN tasks t ON t.id = c.task LEFT JOIN call_time d ON d.call = c.id
    WHERE t.process <> 0 AND NOT (c.back AND d.call IS NULL))
SELECT pid, process, layer, function, count, unreturned, began_before, errors, bytes, sum_ns, self_ns,
    -- A division of words without a sign: of the high half, then of its remainder with the low half.
    ((sum_ns >> 32 & 4294967295) / count << 32)
        | ((((sum_ns >> 32 & 4294967295) % count) << 32 | (sum_ns & 4294967295)) / count) AS mean_ns,
    p50_ns, p95_ns, p99_ns, max_ns, running_ns, runnable_ns, throttled_ns, blocked_ns, process_id FROM (
SELECT p.pid, coalesce(p.name, '?') AS process, f.layer, f.symbol AS function, count(c.dur_ns) AS count,
    sum(NOT c.back AND c."end" <> 4) AS unreturned, sum(c."end" = 4) AS began_before,
    sum(c.back AND coalesce(c.result, 0) <> 0) AS errors, SUM64(CASE WHEN c.back THEN c.bytes END) AS bytes,
    coalesce(SUM64(c.dur_ns), 0) AS sum_ns, coalesce(SUM64(c.self_ns), 0) AS self_ns,
    max(CASE WHEN c.place = (c.n * 50 + 99) / 100 THEN c.dur_ns END) AS p50_ns,
    max(CASE WHEN c.place = (c.n * 95 + 99) / 100 THEN c.dur_ns END) AS p95_ns,
    max(CASE WHEN c.place = (c.n * 99 + 99) / 100 THEN c.dur_ns END) AS p99_ns, max(c.dur_ns) AS max_ns,
    iif(k.states, coalesce(SUM64(c.running_ns), 0), NULL) AS running_ns, iif(k.states, coalesce(SUM64(c.runnable_ns), 0), NULL) AS runnable_ns,
    iif(k.states AND k.throttling, coalesce(SUM64(c.throttled_ns), 0), NULL) AS throttled_ns,
    iif(k.states, coalesce(SUM64(c.blocked_ns), 0), NULL) AS blocked_ns, p.id AS process_id
FROM c JOIN known k ON k.process = c.process JOIN processes p ON p.id = c.process LEFT JOIN functions f ON f.id = c.func_id
GROUP BY c.process, c.func_id);
CREATE VIEW behind_figures AS
SELECT p.pid, coalesce(p.name, '?') AS process, h.pid AS holder_pid, coalesce(h.name, '?') AS holder, SUM64(b.ns) AS ns, p.id AS process_id, h.id AS holder_id
FROM behind b JOIN stay s ON s.id = b.stay JOIN tasks t ON t.id = s.task JOIN processes p ON p.id = t.process
    JOIN tasks ht ON ht.id = b.holder JOIN processes h ON h.id = ht.process
WHERE s.kind <> 'newborn' AND NOT (s.before OR s.unfinished) GROUP BY p.id, h.id;
