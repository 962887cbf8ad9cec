"""`make demo`: a rolling deploy and a scale-down, without and with the operator, on a real Kubernetes and a real Kafka.

The one idea: both columns of the closing table are measured in the same run, from the brokers' log and from the times
at which consumers received records; nothing the operator says about itself enters a figure.
"""
