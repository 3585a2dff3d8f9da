"""Trained models on disk: checkpoints, model folders and ONNX files, and the opening of any of them."""
