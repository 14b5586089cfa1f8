"""Latency matrices, in ns, with the structure and the figures of published measurements, and random ones.

Every machine is a list of levels, innermost first: how many units make one of the next level, and the latency between two
CPUs that first meet at this level. Noise is what differs between pairs of one level.
"""

import random


def levels(*spec, siblings=None):
    """Cores nested in levels (count, ns); `siblings` is the latency of two threads of a core, numbered N..2N-1."""
    cores = 1
    for count, _ in spec:
        cores *= count

    def between(a, b):
        if a % cores == b % cores:
            return siblings
        a, b = a % cores, b % cores
        for count, ns in spec:
            a, b = a // count, b // count
            if a == b:
                return ns
        raise AssertionError("the outermost level holds all cores")

    return cores * (2 if siblings else 1), between


def matrix(machine, noise, seed, directed=0.0):
    """N x N: every pair's latency varies by `noise`, and the two directions of a pair by `directed`, both relative."""
    size, between = machine
    chance = random.Random(seed)
    cells = [[0.0] * size for _ in range(size)]
    for a in range(size):
        for b in range(a):
            ns = between(a, b) * (1 + noise * chance.uniform(-1, 1))
            for x, y in ((a, b), (b, a)):
                cells[x][y] = round(ns * (1 + directed * chance.uniform(-1, 1)), 2)
    return cells


def scattered(size, seed, directed=False):
    """Every latency between 10 and 300 ns, independent of all others: no machine, but the hardest to route."""
    chance = random.Random(seed)
    cells = [[0.0] * size for _ in range(size)]
    for a in range(size):
        for b in range(a):
            cells[a][b] = round(chance.uniform(10, 300), 2)
            cells[b][a] = round(chance.uniform(10, 300), 2) if directed else cells[a][b]
    return cells


def mesh(columns, rows, hop, base, seed, noise=0.03):
    """Cores on a grid: the latency grows with the way through it."""
    chance = random.Random(seed)
    size = columns * rows
    cells = [[0.0] * size for _ in range(size)]
    for a in range(size):
        for b in range(a):
            way = abs(a % columns - b % columns) + abs(a // columns - b // columns)
            cells[a][b] = cells[b][a] = round((base + hop * way) * (1 + noise * chance.uniform(-1, 1)), 2)
    return cells


XEON_6242 = levels((16, 48), (2, 141), siblings=7.4)
XEON_8375C = levels((32, 51), (2, 108), siblings=8.0)
TR_2990WX = levels((4, 25), (2, 90), (4, 155), siblings=10.3)
EPYC_7742 = levels((4, 25), (4, 132), (4, 160), (2, 267), siblings=8.0)
EPYC_7773X = levels((8, 26), (8, 117), siblings=10.1)
KUNPENG_920 = levels((4, 36), (8, 60), (2, 80), (2, 180))
RYZEN_5950X = levels((8, 18), (2, 85), siblings=7.8)
M1_PRO = levels((4, 40), (2, 150))
GRAVITON3 = levels((64, 46))


def all_matrices():
    """Name and matrix, 8 to 256 CPUs."""
    yield "M1 Pro", matrix(M1_PRO, 0.1, 1)
    yield "Ryzen 5950X", matrix(RYZEN_5950X, 0.1, 2)
    yield "2 x Xeon Gold 6242", matrix(XEON_6242, 0.1, 3)
    yield "2 x Xeon Gold 6242, directed", matrix(XEON_6242, 0.1, 4, directed=0.1)
    yield "2 x Xeon 8375C", matrix(XEON_8375C, 0.15, 5)
    yield "Threadripper 2990WX", matrix(TR_2990WX, 0.1, 6)
    yield "Threadripper 2990WX, directed", matrix(TR_2990WX, 0.1, 7, directed=0.15)
    yield "Graviton3 (flat)", matrix(GRAVITON3, 0.2, 8)
    yield "Kunpeng 920, 2 sockets", matrix(KUNPENG_920, 0.15, 9)
    yield "EPYC 7773X", matrix(EPYC_7773X, 0.1, 10)
    yield "2 x EPYC 7742", matrix(EPYC_7742, 0.1, 11)
    yield "2 x EPYC 7742, directed", matrix(EPYC_7742, 0.1, 12, directed=0.1)
    yield "mesh 16 x 8", mesh(16, 8, 6, 30, 13)
    yield "mesh 16 x 16", mesh(16, 16, 6, 30, 14)
    for seed, size in enumerate((8, 13, 32, 64, 128, 200, 256)):
        yield f"random {size}", scattered(size, 100 + seed)
    for seed, size in enumerate((9, 24, 64, 128, 256)):
        yield f"random {size}, directed", scattered(size, 200 + seed, directed=True)
