"""The service: projects of items, a durable log of answers, what is learned from them, an HTTP API and a page."""
