"""`make pipeline-demo`: from a fleet's journal in a Kafka topic to the next pod's session timeout.

The one idea: everything between the simulated past and the running pod is the real thing: the journal's schema, a topic
of a real broker, the learner's own command, an operator from its chart that pulls the recommendations over HTTP; and
the broker reports a pod's final session timeout.
"""
