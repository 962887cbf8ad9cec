"""What is known of one pod, and whether no process of it runs.

`pod` is one version of an object, `certificate` what that version shows to have ended, `chain` what all versions tell together, `run` the
newest end of each container. Nothing here knows a member, a spec or a plan.
"""
