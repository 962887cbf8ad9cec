"""Drills: nodes and pods of a real cluster fail in a chosen or a drawn way, and no living member may be removed for it.

The one idea: what a drill must show is asked of the machine (which process of a pod's cgroup lives, and when exactly it
ended) and of the brokers' log (removals and their times), and never of the operator.
"""
