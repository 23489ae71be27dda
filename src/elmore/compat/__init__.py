"""Other programs' names for what Elmore does, so that code written for them runs on.

Only the objects in here remember the state of the LSTM from call to call, because those they stand in for did.
"""
