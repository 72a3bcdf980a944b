"""How well barcodes are corrected, against a simulated truth and beside other tools.

    PYTHONPATH=tests:workflow python -m accuracy --seeds 3 --cases clones-200

cases        what is simulated
generate     the reads of a case, and their truth
scores       a partition of reads into molecules, against the truth
intervals    means over seeds, and who is better
contestants  what a tool is to this judge, and umimill as one
peers        migec and umi_tools
table        all of it, in Markdown
"""
