"""What the experiments share: the corpus, running kara, and publishing what came out.

Each experiment is a script `experiments/NAME/run`; it prints a table as Markdown and writes that, the same
as CSV and JSON, and its figures as SVG to a folder, with the environment it ran in.
"""
