"""How the operator logs in at brokers: credentials, tokens and TLS, and which of them namespaces share."""
