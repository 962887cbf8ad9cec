"""`make pipeline-demo`: from a fleet's journal in a Kafka topic to the session timeout of the next pod on a real cluster.

The one idea: everything between the simulated past and the running pod is the real thing: the journal's schema, a topic
of a real broker, the learner's own command, an operator from its chart that pulls the recommendations over HTTP; and
what a pod's session timeout became is asked of the broker.
"""
