"""The device thread, the codec threads and the choice of the device."""
