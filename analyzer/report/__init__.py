"""The verdict as one self-contained page: no scripts, no network, light and dark, laptop and phone."""
