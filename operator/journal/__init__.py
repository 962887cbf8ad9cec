"""What the operator records for programs that read many clusters, and the recommendations that it reads.

Both are off by default and then not imported; only `staticgroup.runtime.process.fleet` imports them. `journal` turns
rounds into records (`rounds` derives facts from a round, `records` defines them, `sinks` writes them);
`recommendations` reads what the fleet learner publishes.
"""
