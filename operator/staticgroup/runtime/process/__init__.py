"""One operator process and its surroundings: settings, client configuration, logs, probes, kopf, start and end."""
