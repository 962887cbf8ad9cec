"""One operator process and its surroundings: settings, the client's configuration, logs, probes, kopf, start and end."""
