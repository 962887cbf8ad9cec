"""One pod and its node, explored to the end: the product's own rules about nodes against every order of what may happen to them.

`world` is what machines, kubelets, users and controllers do, `watcher` the operator that looks and judges. A certificate while the
process runs anywhere, or before it runs again, is a living member removed.
"""
