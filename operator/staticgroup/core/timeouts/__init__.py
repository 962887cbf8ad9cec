"""The session timeout of one group: `in_force.plan_timeouts` is the way in."""
