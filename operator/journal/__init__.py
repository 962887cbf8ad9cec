"""What the operator records for programs that read many clusters, and the recommendations that it may take back.

Off by default, and then not imported: `staticgroup.runtime.fleet` is the one door. `journal` turns rounds into
records (`rounds` says what a round shows, `records` what a record is, `sinks` where it goes); `recommendations` reads
what the fleet learner publishes.
"""
