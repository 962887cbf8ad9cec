"""The stage of end-to-end tests and of the demo: a cluster, brokers, the installed operator, and independent witnesses.

Truth comes from processes, from the brokers' log and from the clients' own lines, never from the operator's status.
"""
