"""A fleet that does not exist, and the journal that its operators would write."""
