"""A policy in forms other programs read: NumPy, ONNX, PyTorch. The standalone files need nothing of this package."""
