"""umimill: one consensus per molecule from UMI-tagged reads."""

__version__ = "0.1.0"

# Raised when the bytes of a data output change for equal input. Rules pass it as a parameter, since
# Snakemake does not see edits inside an imported package.
ALGORITHM_VERSION = 5
