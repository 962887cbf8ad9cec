"""The way to the StaticGroup's status and back: what users read of a round, and what a restarted operator reads again.

`projection` puts the whole together: conditions (`statements`) and the list of what is not as it should be (`exceptions`).
`memory` and `members` write the durable part and are the only ones that read it.
"""
