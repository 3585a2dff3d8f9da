"""A gallery as a service: its answers over HTTP, who may ask for them, and a page that asks."""
