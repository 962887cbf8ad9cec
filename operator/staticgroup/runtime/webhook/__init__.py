"""The mutating webhook: gives new pods their ids where the API server does not serve the admission policy."""
