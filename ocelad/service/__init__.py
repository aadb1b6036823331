"""The service: projects with items, a durable log of answers, online learning, an HTTP API and a web page."""
