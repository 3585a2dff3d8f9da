"""Every protocol of the field on a small set in its published layout, beside the answers of an independent script."""
