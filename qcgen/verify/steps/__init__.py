"""Every kind of output step, driven in the C itself from both sides of the steps of its codes, at ties and near them.

The sums of layers are driven by verify/sums.py; here is everything else.
"""
