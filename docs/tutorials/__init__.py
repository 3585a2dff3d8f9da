"""The tutorials: pages whose blocks run from top to bottom, each followed by what it prints."""
