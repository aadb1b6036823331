"""Many trackers, one per key: a tenant, a user, a site or a topic."""
