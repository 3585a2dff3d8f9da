"""Why figures disagree, or a training fails: the first cause with its evidence, or what was tried and is well."""
