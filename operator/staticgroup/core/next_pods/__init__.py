"""Which ids the next pods receive.

`injection` says what the admission policy writes and since when ids can exist, `agent` whether the agent comes into the
next Connect workers.
"""
