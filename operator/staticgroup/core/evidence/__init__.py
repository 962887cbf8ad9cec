"""What is known of one pod, and whether no process of it runs.

Nothing here knows a member, a spec or a plan.
"""
