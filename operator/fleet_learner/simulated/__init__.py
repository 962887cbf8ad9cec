"""A simulated fleet, and the journal that its operators would write."""
