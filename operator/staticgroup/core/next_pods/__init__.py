"""What the next pods receive: whether they get their ids, and how long they may be away.

`timeouts` chooses the session timeout, for which the fleet learner may give `advice`; `injection` says what the admission
policy writes and since when ids can exist; `in_force` compares it with what the pods of now were started with.
"""
