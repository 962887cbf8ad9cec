"""The calls that the operator makes: what each asks in kio's classes, and what its answer says."""
