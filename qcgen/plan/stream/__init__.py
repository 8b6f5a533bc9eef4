"""Streams: chains of layers that compute their rows as soon as the rows that they need are there."""
