"""One command line: `staticgroup …` in the operator's pod is `kubectl staticgroup …` on a desk, with the same flags.

What stands in this folder needs Python's standard library alone, so that the plugin is one file; what needs the operator's
libraries is in `operator/`, which the plugin does not carry.
"""
