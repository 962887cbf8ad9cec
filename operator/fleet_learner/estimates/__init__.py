"""Estimate restart gaps, what a timeout costs, and whether restarts got slower: plain NumPy functions, no Spark.

One estimator per file, each with its source; `validation` checks their stated properties by simulation.
"""
