"""What scripts/gpu-check is made of. All of it runs on Python 3 alone, but for in_torch.py, a program of its own."""
