"""Owns the measurements: each module measures one promise as a ratio within one run, and says whether it holds.

Run one with `.venv/bin/python -m bench.writes`; `--json` prints the figures for machines. A missed target ends with 1.
"""
