"""How Hypothesis draws: the same examples each time in `make test`, new ones in `make full`.

What a commit must pass must not depend on luck; and a busy machine makes an example slow, not wrong.
"""

from hypothesis import settings

from support.long_drills import are_drills_long

settings.register_profile("repeated", derandomize=True, deadline=None)
settings.register_profile("searching", deadline=None)
settings.load_profile("searching" if are_drills_long() else "repeated")
