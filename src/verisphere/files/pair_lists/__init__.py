"""Published lists of pairs, one layout a file; `layouts` has the table of them, by which `read_pairs` reads any."""
