"""How ids may pass from pod to pod of a Deployment: the rule, and every order of events in which it must hold.

The pods of a Deployment have no names that come back, so a *slot* stands for the name: `orders-483920175`, with a
number that is drawn. The product does not serve Deployments yet; the rule stands here until it does.
"""
