"""Measurements that others can repeat: over HTTP, of the kernels, of the codecs. The service never imports this."""
