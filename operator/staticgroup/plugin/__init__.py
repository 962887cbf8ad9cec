"""`kubectl staticgroup`: what a person can see with his own rights, through his own kubectl.

The one idea: one file that needs Python and kubectl and nothing else. It shares words with the operator's own
commands, imports the standard library alone, and asks the API server only through kubectl, so that contexts, credential
helpers and proxies are those of every other kubectl command. It reads statuses; it runs nothing in any pod.
"""
