"""What every group type is written in: requests, records and timers as values, settings, and the shard they work on."""
