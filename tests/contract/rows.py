"""Owns the list of the contract's rows, for checkouts that have no contract beside them."""

ROWS = frozenset(
    [f"XM-{number}" for number in range(1, 23)]
    + [f"XS-{number}" for number in range(1, 8)]
    + [f"XS-T{number}" for number in range(1, 10)]
    + [f"KS-{number}" for number in range(1, 9)]
    + [f"ZE-{number}" for number in range(1, 6)]
    + [f"XA-{number}" for number in range(1, 13)]
)
