"""The page of all fields is up to date."""

from tests.recipe.fields_page import PAGE, page


def test_the_page_is_what_the_recipe_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.recipe.fields_page"
