"""One command line: `staticgroup …` in the operator's pod is `kubectl staticgroup …` on a desk, with the same flags.

The modules of this folder need Python's standard library alone, so that the plugin is one file; those that need the
operator's libraries are in `operator/`, which the plugin does not carry.
"""
