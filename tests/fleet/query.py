"""Runs the queries of spec/fleet.md over a folder of datasets.

    query.py ENGINE DIR FLEET.md      ENGINE is duckdb, spark or polars

Prints a JSON object: the rows of each query by its heading. polars, whose SQL is smaller, prints the number of rows of each table, and
the figures per process by its own expressions.
"""
import decimal
import json
import pathlib
import re
import sys

engine, lake, page = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]).read_text()
queries = re.findall(r"^## (.+?)$.*?```sql\n(.*?)```", page, re.S | re.M)
tables = sorted(p.name for p in lake.iterdir() if p.name != "manifest" and not p.name.startswith("."))
# A kind of event that no recording has is no table; questions about it are left out.
queries = [(heading, sql) for heading, sql in queries if "collective" in tables or "from collective" not in sql]


def plain(value):
    if isinstance(value, decimal.Decimal):
        value = int(value) if value == value.to_integral_value() else float(value)
    return round(value, 9) if isinstance(value, float) else value


def answer(names, rows):
    return [dict(zip(names, map(plain, row))) for row in rows]


out = {}
if engine == "duckdb":
    import duckdb

    db = duckdb.connect()
    for table in tables:
        db.execute(
            f"create view \"{table}\" as select * from read_parquet('{lake}/{table}/**/*.parquet', hive_partitioning = true)"
        )
    for heading, sql in queries:
        result = db.execute(sql)
        out[heading] = answer([c[0] for c in result.description], result.fetchall())
elif engine == "spark":
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    for table in tables:
        spark.read.parquet(f"{lake}/{table}").createOrReplaceTempView(table)
    for heading, sql in queries:
        frame = spark.sql(sql)
        out[heading] = answer(frame.columns, frame.collect())
    spark.stop()
elif engine == "polars":
    import polars
    from polars import col

    def scan(table):
        return polars.scan_parquet(f"{lake}/{table}/**/*.parquet", hive_partitioning=True)

    for table in tables:
        out[table] = scan(table).select(polars.len()).collect().item()

    process, ns = ["host", "run", "process_id"], col("dur_ns")
    states = scan("thread_states")
    stays = (
        states.filter(col("stay").is_not_null() & (col("kind") != "newborn"))
        .group_by(*process, "stay")
        .agg(
            ns=ns.sum(),
            whole=col("whole").any(),
            blocked=ns.filter(col("state") == "blocked").sum(),
            runnable=ns.filter(col("state") == "runnable").sum(),
        )
    )
    whole = col("whole")
    off_cpu = stays.group_by(process).agg(
        off_cpu_count=whole.sum(),
        off_cpu_ns=col("ns").filter(whole).sum(),
        off_cpu_max_ns=col("ns").filter(whole).max(),
        blocked_ns=col("blocked").filter(whole).sum(),
        runnable_ns=col("runnable").filter(whole).sum(),
        unfinished_ns=col("ns").filter(~whole).sum(),
    )
    on_cpu = states.filter(col("state") == "running").group_by(process).agg(on_cpu_ns=ns.sum())
    switches = (
        scan("sched_switch")
        .filter(col("prev") != 0)
        .join(scan("tasks"), left_on=["host", "run", "prev"], right_on=["host", "run", "task"])
        .group_by(process)
        .agg(context_switches=polars.len())
    )
    figures = [
        "context_switches", "off_cpu_count", "off_cpu_ns", "off_cpu_max_ns", "blocked_ns", "runnable_ns", "unfinished_ns", "on_cpu_ns",
    ]  # fmt: skip
    rows = scan("processes")
    for part in [off_cpu, on_cpu, switches]:
        rows = rows.join(part, on=process, how="left")
    rows = (
        rows.with_columns(col("name").fill_null("?"), *(col(f).cast(polars.Int64).fill_null(0) for f in figures))
        .filter((col("context_switches") > 0) | (col("on_cpu_ns") > 0) | (col("unfinished_ns") > 0))
        .with_columns(polars.when(col("knows_states")).then(col(f)).alias(f) for f in figures)
        .sort("host", "pid", "process_id")
        .select("host", "pid", "name", *figures)
    )
    out["Figures per process"] = rows.collect().to_dicts()
else:
    sys.exit(f"{engine}: no such engine")
json.dump(out, sys.stdout)
