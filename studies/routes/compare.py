#!/usr/bin/env python3
"""Compares the routes of `lockswap topo --latency` with those of OR-Tools, as a Markdown table.

    python3 -m venv venv && venv/bin/pip install -r studies/routes/requirements.txt
    venv/bin/python studies/routes/compare.py target/release/lockswap > table.md

OR-Tools searches each matrix with guided local search for 10 s of CPU time. Both tours are measured here, on the same
matrix. Exits with 1 if a route of lockswap is more than 1% longer, or took more than 2 s of CPU time.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time

from ortools.constraint_solver import pywrapcp, routing_enums_pb2

from machines import all_matrices


def length(cells, tour):
    return sum(cells[a][b] for a, b in zip(tour, tour[1:] + tour[:1]))


def by_ortools(cells, seconds):
    """A tour by guided local search, as OR-Tools' own travelling-salesman example sets it up."""
    manager = pywrapcp.RoutingIndexManager(len(cells), 1, 0)
    routing = pywrapcp.RoutingModel(manager)
    whole = [[round(ns * 1000) for ns in row] for row in cells]
    routing.SetArcCostEvaluatorOfAllVehicles(routing.RegisterTransitMatrix(whole))
    start = time.process_time()
    limit = routing.solver().CustomLimit(lambda: time.process_time() - start > seconds)
    routing.AddSearchMonitor(limit)
    settings = pywrapcp.DefaultRoutingSearchParameters()
    settings.first_solution_strategy = routing_enums_pb2.FirstSolutionStrategy.PATH_CHEAPEST_ARC
    settings.local_search_metaheuristic = routing_enums_pb2.LocalSearchMetaheuristic.GUIDED_LOCAL_SEARCH
    # The limit above is what ends the search; without one in wall time there would be no guided search.
    settings.time_limit.FromSeconds(int(seconds * 20))
    solution = routing.SolveWithParameters(settings)
    index, tour = routing.Start(0), []
    while not routing.IsEnd(index):
        tour.append(manager.IndexToNode(index))
        index = solution.Value(routing.NextVar(index))
    return tour


def by_lockswap(command, cells):
    """The tour, and the CPU time that it took."""
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        file.write("".join(",".join(map(str, row)) + "\n" for row in cells))
        file.flush()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        out = subprocess.run([command, "topo", "--latency", file.name, "--json"], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = json.loads(out.stdout)
    assert sorted(found["route"]) == list(range(len(cells)))
    assert abs(found["round_trip_ns"] - length(cells, found["route"])) < 0.01
    return found["route"], after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("lockswap", help="the command")
    arguments.add_argument("--seconds", type=float, default=10.0, help="CPU time for OR-Tools, per matrix (default: 10)")
    given = arguments.parse_args()
    failed = False
    print("| matrix | CPUs | OR-Tools, ns | lockswap, ns | ratio | lockswap's CPU time, s |\n|---|--:|--:|--:|--:|--:|")
    for name, cells in all_matrices():
        tour, cpu_s = by_lockswap(given.lockswap, cells)
        theirs, ours = length(cells, by_ortools(cells, given.seconds)), length(cells, tour)
        failed |= ours > 1.01 * theirs or cpu_s > 2
        print(f"| {name} | {len(cells)} | {theirs:.1f} | {ours:.1f} | {ours / theirs:.4f} | {cpu_s:.2f} |", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
