"""The studies whose figures the docs state: run by `make study OF=NAME`, and no part of the wheel.

rules/       which rule of cleaning finds which label noise (docs/lab/cleaning.md)
inversions/  a table of inversions, as ArcFace's tables 10 and 11 (docs/lab/inversion.md)
overlap/     what a search for overlap misses (docs/lab/cleaning.md)
protocols/   every protocol on a small set, beside an independent script (docs/protocols.md)
"""
