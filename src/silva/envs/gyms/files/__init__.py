"""Tasks on real files (tables, documents, slides, PDF, pictures), with tools that work on them offline."""
