"""A grammar of questions on files: seeds (themes), quantities that a file can hold, and what is asked of them."""
