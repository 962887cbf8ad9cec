"""What is known of the processes that can hold an id: which are proven dead, and when none can have come and gone unseen.

`pod` is one version of an object, `certificate` what that version proves, `chain` what all carriers of an id prove together.
Where the watch has a gap, `continuity` says for which names nothing is lost; where no object proves an end, `words` takes a
person's word. Nothing here knows a member, a spec or a plan.
"""
