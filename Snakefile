# The workflow is workflow/Snakefile. A Snakefile that only includes another has no default target.
include: "workflow/Snakefile"


rule default:
    default_target: True
    input:
        rules.all.input,
    localrule: True
