"""The code that computes plans: Triton kernels with launchers, and a vectorised host backend. Trusts its input."""
