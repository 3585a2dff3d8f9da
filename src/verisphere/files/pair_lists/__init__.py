"""Published lists of pairs, one layout per module; `read_pairs` reads any layout of the table in `layouts`."""
