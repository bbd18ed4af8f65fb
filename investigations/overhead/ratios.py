"""Ratios of recorded to bare runs: ratios.py PAIRS.txt... Each line says 'bare' or 'recorded' and '... in SECONDS s'."""

import re
import statistics
import sys

for path in sys.argv[1:]:
    times = {"bare": [], "recorded": []}
    for line in open(path):
        found = re.match(r"(bare|recorded) .*? (?:in )?([0-9.]+) ?s\b", line)
        if found:
            times[found[1]].append(float(found[2]))
    ratios = [r / b for b, r in zip(times["bare"], times["recorded"])]
    print(
        f"{path}: {len(ratios)} pairs, bare {min(times['bare']):.3f} to {max(times['bare']):.3f} s, "
        f"recorded ÷ bare median {statistics.median(ratios):.4f}, {min(ratios):.4f} to {max(ratios):.4f}"
    )
