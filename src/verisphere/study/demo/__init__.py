"""The demo: everything from training to a shipped model, on synthetic faces, in a few minutes."""
