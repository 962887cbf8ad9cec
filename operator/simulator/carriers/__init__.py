"""One seat searched to the end: a removed member is dead in whatever order pods, processes, brokers and operators act.

The decisions are the product's own (`core.plan`, `core.members`, `runtime.members`, `kube.pods.book`): the model holds
the world around them.
"""
