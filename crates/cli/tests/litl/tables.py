"""Computes the tables of `lockswap study report` once more, with pandas, and compares them cell for cell.

Usage: tables.py REPORT.csv MACHINE=DATA.csv...
"""

import sys

import pandas as pd

TIE, HARM, SENSITIVE = 0.05, 0.15, 0.10


def means(file):
    """The mean throughput of each cell: a row for each program and number of nodes, a column for each lock."""
    runs = pd.read_csv(file)
    return runs.groupby(["bench", "node", "strategy"])["throughput"].mean().unstack("strategy")


def at(cells, where):
    """A row for each program, at its fewest or most nodes or, for each lock, at the best ones."""
    if where == "opt":
        return cells.groupby("bench").max()
    place = 0 if where == "fewest" else -1
    return cells.groupby("bench").apply(lambda rows: rows.droplevel("bench").sort_index().iloc[place])


def melted(table):
    return table.stack().rename_axis(["row", "column"]).dropna()


def named(columns):
    return melted(pd.DataFrame(columns))


def spreads(rows):
    """Of each program the gain of the best lock over the worst, and the relative standard deviation."""
    locks = rows.count(axis=1)
    return (rows.max(axis=1) / rows.min(axis=1) - 1)[locks > 1], (rows.std(axis=1) / rows.mean(axis=1))[locks > 1]


def orders(rows):
    """For each two locks, in columns: 1 where the first is better, -1 where it is worse, 0 where neither is."""
    found = {}
    for i, a in enumerate(rows.columns):
        for b in rows.columns[i + 1:]:
            better = (rows[b] < (1 - TIE) * rows[a]).astype(float) - (rows[a] < (1 - TIE) * rows[b]).astype(float)
            found[a, b] = better.where(rows[a].notna() & rows[b].notna())
    return pd.DataFrame(found)


def ladder(nodes):
    steps = [nodes[0]]
    for count in nodes[1:]:
        if count >= 2 * steps[-1]:
            steps.append(count)
    return steps if len(steps) > 1 else [nodes[0], nodes[-1]]


def changed(all_orders):
    """Of each program the share of pairs of locks whose order is not the same in all of these tables."""
    first = all_orders[0]
    known = pd.concat([o.notna() for o in all_orders]).groupby(level=0).all().reindex(first.index)
    differs = sum((o.reindex(first.index) != first) for o in all_orders[1:]) > 0
    return (differs & known).sum(axis=1), known.sum(axis=1)


def share(values):
    """The share of what is true, without what is missing."""
    return values.mean() if len(values) else None


def tables(cells):
    """All tables of a machine: their names, and a series of numbers by row and column."""
    all_at = {where: at(cells, where) for where in ("fewest", "max", "opt")}
    found = {}
    columns = {}
    for where, rows in all_at.items():
        gain, deviation = spreads(rows)
        columns[f"gain, {where} nodes"], columns[f"deviation, {where} nodes"] = gain, deviation
    found["sensitivity"] = named(columns)
    sensitive = columns["deviation, max nodes"][lambda d: d > SENSITIVE].index
    rows = {where: table.loc[sensitive] for where, table in all_at.items()}

    found["optimum"] = melted(rows["opt"] / rows["max"] - 1)
    chosen = cells.loc[sensitive].stack().dropna().groupby(["bench", "strategy"]).idxmax().map(lambda key: key[1])
    counts = chosen.value_counts(normalize=True).reindex(cells.index.get_level_values("node").unique(), fill_value=0.0)
    counts.index = counts.index.map(str)
    found["optimum-nodes"] = named({"share": counts})

    near = {w: (r.ge((1 - TIE) * r.max(axis=1), axis=0)).where(r.notna()).mean() for w, r in rows.items()}
    found["coverage"] = named({f"{w} nodes": values for w, values in near.items()})
    summary = {f"{w} nodes": {"least": v.min(), "largest": v.max(), "mean": v.mean(), "deviation": v.std()}
               for w, v in near.items()}
    found["coverage-summary"] = melted(pd.DataFrame(summary).T)

    better_worse = {}
    for where in ("max", "opt"):
        table = rows[where]
        scores = pd.DataFrame({
            b: {a: share((table[b] < (1 - TIE) * table[a])[table[a].notna() & table[b].notna()])
                for a in table.columns if a != b}
            for b in table.columns}).reindex(index=table.columns, columns=table.columns)
        better_worse[f"better, {where} nodes"] = scores.mean(axis=1)
        better_worse[f"worse, {where} nodes"] = scores.mean(axis=0)
        whole = scores.copy()
        whole["mean"] = scores.mean(axis=1)
        whole.loc["mean"] = scores.mean(axis=0)
        found[f"pairs-{where}"] = melted(whole)

        gains = (1 / table).mul(table.max(axis=1), axis=0) - 1
        found[f"gains-{where}"] = melted(gains)
        found.setdefault("harm", {})[f"{where} nodes"] = (gains > HARM).where(gains.notna()).mean()
        relative = table.div(table.max(axis=1), axis=0)
        typical = found.setdefault("typical", {})
        typical["programs"] = relative.count().clip(lower=typical.get("programs", 0))
        typical[f"typical, {where} nodes"] = relative.prod() ** (1 / relative.count())
        typical[f"worst loss, {where} nodes"] = 1 - relative.min()
    found["better-worse"], found["harm"] = named(better_worse), named(found["harm"])
    found["typical"] = named(found["typical"])

    nodes = sorted(cells.index.get_level_values("node").unique())
    steps = ladder(nodes)
    sets = [steps[i:i + 2] for i in range(len(steps) - 1)] + ([steps] if len(steps) > 2 else [])
    by_nodes = {n: orders(cells.xs(n, level="node").reindex(sensitive)) for n in steps}
    columns = {}
    for group in sets:
        count, of = changed([by_nodes[n] for n in group])
        columns["/".join(map(str, group))] = (count / of)[of > 0]
    found["changes-nodes"] = named(columns)
    return found, rows


def between(a, b):
    """The share of pairs of locks, over all programs that both machines have, that are in another order on the other."""
    programs, locks = a.index.intersection(b.index), a.columns.intersection(b.columns)
    count, of = changed([orders(rows.loc[programs, locks]) for rows in (a, b)])
    return count.sum() / of.sum()


def main():
    theirs = pd.read_csv(sys.argv[1], dtype={"row": str, "column": str})
    expected, machines = {}, {}
    for argument in sys.argv[2:]:
        machine, file = argument.split("=", 1)
        found, machines[machine] = tables(means(file))
        expected.update({(machine, table): numbers for table, numbers in found.items()})
    names = list(machines)
    for i, a in enumerate(names):
        for b in names[i + 1:]:
            row = {f"{w} nodes": between(machines[a][w], machines[b][w]) for w in ("max", "opt")}
            expected[", ".join(names), "changes-machines"] = melted(pd.DataFrame({f"{a} and {b}": row}).T)
    compared, wrong = 0, []
    for (machine, table), numbers in expected.items():
        ours = theirs[(theirs["machine"] == machine) & (theirs["table"] == table)].set_index(["row", "column"])["value"]
        numbers.index = numbers.index.map(lambda key: (str(key[0]), str(key[1])))
        for key in ours.index.union(numbers.index):
            own, other = ours.get(key), numbers.get(key)
            compared += 1
            if own is None or other is None or abs(own - other) > 1e-9 * max(1, abs(other)):
                wrong.append(f"{machine}, {table}, {key}: {own} in the report, {other} by pandas")
    print("\n".join(wrong[:20]))
    print(f"{compared} cells compared, {len(wrong)} differ")
    sys.exit(1 if wrong or not compared else 0)


if __name__ == "__main__":
    main()
