"""Interfaces of other programs, so that code written for them runs with Elmore.

Only the objects of this package carry the state of the LSTM from call to call, as the original objects do.
"""
