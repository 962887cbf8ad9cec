"""What is known of one pod, and whether no process of it runs.

`pod` is one version of an object, `certificate` what that version proves to have ended, `chain` what all versions prove
together, with the newest end of a run of each container. Nothing here knows a member, a spec or a plan.
"""
