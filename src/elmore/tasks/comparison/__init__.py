"""What a comparison is made of: variants of a recipe, their trainings side by side, tables and plots."""
