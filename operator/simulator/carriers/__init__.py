"""One seat searched to the end: whoever is removed is dead, whatever order pods, processes, brokers and operators act in.

The decisions are the product's own (`core.plan`, `core.members`, `runtime.members`, `kube.pods.book`): the model holds the world around them.
"""
