"""How the operator logs in at brokers: credentials, tokens and TLS, and what it lends to namespaces."""
