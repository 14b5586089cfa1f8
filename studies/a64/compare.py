#!/usr/bin/env python3
"""Compares simulated locks with the rows of LiTL's machine A-64 that have more than one node.

    python3 studies/a64/compare.py ../shared/data/litl/A64.csv [LOCKSWAP [DURATION]]

The rows are held out: no parameter of `opteron-a64` follows any of them. They are whole programs, and say nothing of
how long their sections are; the simulation runs one map under one lock with eight threads on each node, as it comes. So
what can be compared is how locks stand to each other: each lock's throughput, divided by the geometric mean over all
locks. For each program it prints Kendall's tau between the measured order and the simulated one, and the geometric mean
of how far each lock is off. It writes Markdown.
"""
import csv
import io
import math
import statistics
import subprocess
import sys
from collections import defaultdict

NODES = (2, 4, 6, 8)
THREADS_OF_A_NODE = 8
# Programs with fewer locks say little about an order.
FEWEST_LOCKS = 15
# The best lock is so many times as fast as the median one where it matters which lock a program has.
MATTERS = 1.25


def published(path):
    """Throughputs by program and nodes, and by lock: medians over the runs."""
    runs = defaultdict(lambda: defaultdict(list))
    with open(path) as file:
        for row in csv.DictReader(file):
            runs[row["bench"], int(row["node"])][row["strategy"]].append(float(row["throughput"]))
    return {key: {lock: statistics.median(of) for lock, of in locks.items()} for key, locks in runs.items()}


def simulated(lockswap, locks, duration):
    """Throughputs by nodes, and by lock: medians over the seeds."""
    threads = ",".join(str(THREADS_OF_A_NODE * nodes) for nodes in NODES)
    command = [lockswap, "sim", "--machine", "opteron-a64", "--workload", "kv", "--lock", ",".join(locks)]
    command += ["--threads", threads, "--duration", duration, "--seeds", "3", "--format", "csv"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    runs = defaultdict(lambda: defaultdict(list))
    for row in csv.DictReader(io.StringIO(printed)):
        runs[int(row["threads"]) // THREADS_OF_A_NODE][row["lock"]].append(float(row["throughput"]))
    return {nodes: {lock: statistics.median(of) for lock, of in by.items()} for nodes, by in runs.items()}


def tau(one, other):
    """Kendall's tau over the keys that both have; pairs of equals do not count."""
    keys = list(one)
    agree = disagree = 0
    for i, first in enumerate(keys):
        for second in keys[:i]:
            order = (one[first] - one[second]) * (other[first] - other[second])
            agree += order > 0
            disagree += order < 0
    return (agree - disagree) / max(agree + disagree, 1)


def relative(throughputs):
    mean = math.exp(statistics.fmean(map(math.log, throughputs.values())))
    return {lock: throughput / mean for lock, throughput in throughputs.items()}


def compare(measured, simulation):
    """What is printed of one program."""
    locks = [lock for lock in measured if lock in simulation]
    measured = relative({lock: measured[lock] for lock in locks})
    simulation = relative({lock: simulation[lock] for lock in locks})
    off = math.exp(statistics.fmean(abs(math.log(simulation[lock] / measured[lock])) for lock in locks))
    return max(measured.values()) / statistics.median(measured.values()), tau(measured, simulation), off, len(locks)


def main():
    path, lockswap, duration = (sys.argv[1:] + ["lockswap", "5ms"][len(sys.argv) - 2:])[:3]
    rows = published(path)
    locks = sorted({lock for of in rows.values() for lock in of})
    simulation = simulated(lockswap, locks, duration)
    print("| nodes | programs | tau: median | quartiles | off: median |")
    print("|------:|---------:|------------:|-----------|------------:|")
    matters = []
    for nodes in NODES:
        found = {}
        for (program, on), of in rows.items():
            if on == nodes and sum(lock in simulation[nodes] for lock in of) >= FEWEST_LOCKS:
                found[program] = compare(of, simulation[nodes])
        low, middle, high = statistics.quantiles([of[1] for of in found.values()], n=4)
        off = statistics.median(of[2] for of in found.values())
        print(f"| {nodes} | {len(found)} | {middle:.2f} | {low:.2f} to {high:.2f} | {off:.2f} |")
        matters += [(nodes, program, *of) for program, of in found.items() if of[0] >= MATTERS]
    print(f"\nWhere the best lock is {MATTERS} times as fast as the median one, or more:\n")
    print("| program | nodes | best over median | tau | off | locks |")
    print("|---------|------:|-----------------:|----:|----:|------:|")
    for nodes, program, best, order, off, count in sorted(matters, key=lambda of: (of[1], of[0])):
        print(f"| {program} | {nodes} | {best:.2f} | {order:.2f} | {off:.2f} | {count} |")


main()
