"""A gallery that changes, under a promise that is renewed with each change."""
