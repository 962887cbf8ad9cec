"""The commands that need the operator's libraries: run, webhook, plan, crds, and what `doctor` asks of brokers."""
