"""Compiled kernels: arrays in, arrays out; the caller allocates; no IO, no strings, no exceptions.

A kernel that can meet bad data returns a code and Python raises. Every kernel has a naive twin in
tests/oracle.py.
"""
