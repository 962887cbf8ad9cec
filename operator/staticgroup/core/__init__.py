"""Ring 1: the decisions. Pure, total and synchronous: no clock, no I/O, no logging, no randomness.

Everything here is a function of frozen values: what was observed (`pod`, `group`, `snapshot`), which
deaths are proven (`certificate`, `chain`), what to do about it (`plan`) and how to tell it (`projection`).
"""
