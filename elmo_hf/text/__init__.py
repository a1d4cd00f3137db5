"""Text files of every kind, annotated ones included, and what training needs of them."""
