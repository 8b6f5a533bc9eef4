"""The networks that people put on microcontrollers, built small with random weights; ``make networks-2026``."""
