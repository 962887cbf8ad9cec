"""The session timeout of one group: `in_force.plan_timeouts` is the way in.

`desired` chooses a value from its sources, `bounds` keeps it where clients and brokers take it, `group_config` sets it
on a KIP-848 or Streams group, and `in_force` compares what holds now, and what the next pods get, with the time of a
restart.
"""
